;; Divides by zero.
;; rows: W18
;; ends: trap
;;; call
(drop (i32.div_u (i32.const 1) (memory.grow (i32.const 0))))
(drop (i32.div_u (i32.const 1) (i32.const 0)))
