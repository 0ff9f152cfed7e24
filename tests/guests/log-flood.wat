;; Writes log lines over and over.
;; rows: W4 W16
;; ends: -32014 timeout_ms
;; imports: log
;;; call
(loop $forever (call $log (i32.const 2) (i32.const 16) (i32.const 4)) (br $forever))
