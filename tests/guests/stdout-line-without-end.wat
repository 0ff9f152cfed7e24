;; Writes one line to standard output, without an end.
;; rows: W16 W17
;; ends: -32014 timeout_ms
;; imports: stdout
;;; call
(local $stream i32)
(memory.fill (i32.const 8192) (i32.const 27) (i32.const 4096))
(local.set $stream (call $get_stdout))
(loop $forever
  (call $write (local.get $stream) (i32.const 8192) (i32.const 4096) (i32.const 6144))
  (br $forever))
