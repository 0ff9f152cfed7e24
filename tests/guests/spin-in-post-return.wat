;; Never finishes giving back the memory of its answer.
;; rows: W2
;; ends: -32014 timeout_ms
;;; post-return
(loop $forever (br $forever))
