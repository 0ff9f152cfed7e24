;; Reports progress over and over.
;; rows: W4
;; ends: -32014 timeout_ms
;; imports: progress
;;; call
(loop $forever
  (call $report (f64.const 1) (i32.const 0) (f64.const 0) (i32.const 1) (i32.const 16) (i32.const 4))
  (br $forever))
