;; Counts its calls in a global and in memory: both must be fresh in every call.
;; rows: W24
;;; fields
(global $calls (mut i32) (i32.const 0))
;;; call
(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
(i32.store (i32.const 7168) (i32.add (i32.load (i32.const 7168)) (i32.const 1)))
(i32.store8 (i32.const 6144) (i32.add (i32.const 48) (global.get $calls)))
(i32.store8 (i32.const 6145) (i32.add (i32.const 48) (i32.load (i32.const 7168))))
(return (call $answer (i32.const 6144) (i32.const 2)))
