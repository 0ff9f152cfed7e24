;; Writes to standard output over and over; nobody reads it.
;; rows: W16
;; ends: -32014 timeout_ms
;; imports: stdout
;;; call
(local $stream i32)
(local.set $stream (call $get_stdout))
(loop $forever
  (call $write (local.get $stream) (i32.const 0) (i32.const 4096) (i32.const 6144))
  (br $forever))
