;; Calls itself without end, each time with a frame of many locals.
;; rows: W8
;; ends: trap
;;; fields
(func $deeper (param $n i64) (result i64)
  (local i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64)
  (local.set 1 (i64.mul (local.get $n) (i64.const 3)))
  (local.set 9 (i64.add (local.get 1) (local.get $n)))
  (i64.add (local.get 9) (call $deeper (local.get 1))))
;;; call
(drop (call $deeper (i64.const 1)))
