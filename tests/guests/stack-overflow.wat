;; Calls itself without end.
;; rows: W8
;; ends: trap
;;; fields
(func $deeper (param $n i32) (result i32)
  (i32.add (i32.const 1) (call $deeper (i32.add (local.get $n) (i32.const 1)))))
;;; call
(drop (call $deeper (i32.const 0)))
