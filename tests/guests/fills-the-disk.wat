;; Makes a file of a terabyte, and writes at its far end.
;; rows: F28
;; ends: refused
;; imports: files
;;; fields
(data (i32.const 3072) "large")
;;; call
(call $directories (i32.const 6144))
(if (i32.eqz (i32.load (i32.const 6148))) (then unreachable))
(call $open_at (i32.load (i32.load (i32.const 6144))) (i32.const 0) (i32.const 3072) (i32.const 5)
  (i32.const 1) (i32.const 3) (i32.const 6160))
(if (i32.load8_u (i32.const 6160)) (then unreachable))
(call $set_size (i32.load (i32.const 6164)) (i64.const 1099511627776) (i32.const 6176))
(call $write (i32.load (i32.const 6164)) (i32.const 3072) (i32.const 5) (i64.const 1099511627776) (i32.const 6176))
unreachable
