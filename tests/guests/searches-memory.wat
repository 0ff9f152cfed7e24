;; Looks through 32 MiB of memory it just got for a byte that is not zero.
;; rows: W24
;;; call
(local $at i32)
(drop (memory.grow (i32.const 512)))
(local.set $at (i32.const 65536))
(loop $next
  (if (i64.ne (i64.load (local.get $at)) (i64.const 0)) (then unreachable))
  (local.set $at (i32.add (local.get $at) (i32.const 8)))
  (br_if $next (i32.lt_u (local.get $at) (i32.const 33554432))))
