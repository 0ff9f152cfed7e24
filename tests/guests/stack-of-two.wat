;; Two functions call each other without end, through a table.
;; rows: W8
;; ends: trap
;;; fields
(type $step (func (param i32) (result i32)))
(table 2 funcref)
(elem (i32.const 0) $even $odd)
(func $even (param $n i32) (result i32)
  (i32.add (i32.const 1) (call_indirect (type $step) (local.get $n) (i32.const 1))))
(func $odd (param $n i32) (result i32)
  (i32.add (i32.const 1) (call_indirect (type $step) (local.get $n) (i32.const 0))))
;;; call
(drop (call $even (i32.const 0)))
