;; Waits for standard input, which nobody writes to.
;; rows: W3
;; ends: any
;; imports: stdin
;;; call
(local $stream i32)
(local.set $stream (call $get_stdin))
(loop $forever
  (call $block (call $subscribe (local.get $stream)))
  (call $read (local.get $stream) (i64.const 1) (i32.const 6144))
  (br_if $forever (i32.eqz (i32.load8_u (i32.const 6144)))))
unreachable
