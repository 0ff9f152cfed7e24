;; Sleeps a millisecond, over and over: each sleep is within every limit.
;; rows: W4
;; ends: -32014 timeout_ms
;; imports: clock
;;; call
(local $handle i32)
(loop $forever
  (local.set $handle (call $subscribe (i64.const 1000000)))
  (call $block (local.get $handle))
  (call $drop_pollable (local.get $handle))
  (br $forever))
