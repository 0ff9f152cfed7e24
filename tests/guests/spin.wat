;; Never returns, and never calls the host.
;; rows: W1
;; ends: -32014 timeout_ms
;;; call
(loop $forever (br $forever))
