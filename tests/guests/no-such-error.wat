;; Fails for a reason that there is none of.
;; rows: W12
;; ends: trap
;;; call
(i32.store8 (i32.const 5120) (i32.const 1))
(i32.store8 (i32.const 5124) (i32.const 99))
(return (i32.const 5120))
