;; Opens its folder again and again and never closes it.
;; rows: W14
;; ends: refused
;; imports: files
;;; fields
(data (i32.const 3072) ".")
;;; call
(call $directories (i32.const 6144))
(if (i32.eqz (i32.load (i32.const 6148))) (then unreachable))
(loop $more
  (call $open_at (i32.load (i32.load (i32.const 6144))) (i32.const 0) (i32.const 3072) (i32.const 1)
    (i32.const 0) (i32.const 1) (i32.const 6160))
  (br_if $more (i32.eqz (i32.load8_u (i32.const 6160)))))
unreachable
