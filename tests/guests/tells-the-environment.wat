;; Answers with every variable that it sees.
;; rows: W25 X5
;; imports: environment
;;; fields
(global $end (mut i32) (i32.const 6160))
(func $say (param $text i32) (param $length i32)
  (memory.copy (global.get $end) (local.get $text) (local.get $length))
  (global.set $end (i32.add (global.get $end) (local.get $length))))
;;; call
(local $at i32) (local $left i32)
(call $environment (i32.const 6144))
(local.set $at (i32.load (i32.const 6144)))
(local.set $left (i32.load (i32.const 6148)))
(block $done (loop $next
  (br_if $done (i32.eqz (local.get $left)))
  (call $say (i32.load (local.get $at)) (i32.load offset=4 (local.get $at)))
  (call $say (i32.load offset=8 (local.get $at)) (i32.load offset=12 (local.get $at)))
  (local.set $at (i32.add (local.get $at) (i32.const 16)))
  (local.set $left (i32.sub (local.get $left) (i32.const 1)))
  (br $next)))
(return (call $answer (i32.const 6160) (i32.sub (global.get $end) (i32.const 6160))))
