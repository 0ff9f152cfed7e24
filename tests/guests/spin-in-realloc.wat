;; Never returns the memory that the host asks for to hand over the arguments.
;; rows: W2
;; ends: -32014 timeout_ms
;;; realloc
(loop $forever (br $forever))
