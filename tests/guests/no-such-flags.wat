;; Opens a folder with flags that nobody has defined.
;; rows: W12 F15
;; ends: refused
;; imports: files
;;; fields
(data (i32.const 3072) "made.txt")
;;; call
(call $directories (i32.const 6144))
(if (i32.eqz (i32.load (i32.const 6148))) (then unreachable))
(call $open_at (i32.load (i32.load (i32.const 6144))) (i32.const -1) (i32.const 3072) (i32.const 8)
  (i32.const 0x7ffffff2) (i32.const 0x7ffffffc) (i32.const 6160))
(if (i32.load8_u (i32.const 6160)) (then unreachable))
