;; Asks standard input for all the bytes a number can say.
;; rows: W15
;; ends: refused
;; imports: stdin
;;; call
(call $read (call $get_stdin) (i64.const -1) (i32.const 6144))
unreachable
