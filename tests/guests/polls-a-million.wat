;; Waits for a list of a million handles, all of them the same one.
;; rows: W4 W10
;; ends: refused
;; imports: clock
;;; call
(local $at i32) (local $handle i32)
(drop (memory.grow (i32.const 640)))
(local.set $handle (call $subscribe (i64.const 1000000000000)))
(local.set $at (i32.const 65536))
(loop $next
  (i32.store (local.get $at) (local.get $handle))
  (local.set $at (i32.add (local.get $at) (i32.const 4)))
  (br_if $next (i32.lt_u (local.get $at) (i32.const 4065536))))
(call $poll (i32.const 65536) (i32.const 1000000) (i32.const 6144))
