;; Never returns, and never calls the host.
;; ends: -32014 timeout_ms
;;; call
(loop $forever (br $forever))
