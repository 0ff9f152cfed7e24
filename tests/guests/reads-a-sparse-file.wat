;; Reads a file of 10 GiB in one call.
;; rows: F27 W15
;; ends: any
;; imports: files
;;; fields
(data (i32.const 3072) "sparse")
;;; call
(call $directories (i32.const 6144))
(if (i32.eqz (i32.load (i32.const 6148))) (then unreachable))
(call $open_at (i32.load (i32.load (i32.const 6144))) (i32.const 0) (i32.const 3072) (i32.const 6)
  (i32.const 0) (i32.const 1) (i32.const 6160))
(if (i32.load8_u (i32.const 6160)) (then unreachable))
(call $read (i32.load (i32.const 6164)) (i64.const -1) (i64.const 0) (i32.const 6176))
unreachable
