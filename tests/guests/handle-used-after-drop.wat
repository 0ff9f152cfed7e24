;; Uses a handle that it has given back.
;; rows: W13
;; ends: trap
;; imports: clock
;;; call
(local $handle i32)
(local.set $handle (call $subscribe (i64.const 0)))
(call $drop_pollable (local.get $handle))
(call $block (local.get $handle))
