;; Writes to nearly all the memory it may have, and keeps it until its time is over.
;; rows: W6
;; ends: -32014 timeout_ms
;; imports: clock
;;; call
(drop (memory.grow (i32.const 1000)))
(memory.fill (i32.const 65536) (i32.const 165) (i32.const 65536000))
(call $block (call $subscribe (i64.const 3600000000000)))
