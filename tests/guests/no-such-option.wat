;; Says of a part of its answer neither that it is there nor that it is not.
;; rows: W12
;; ends: trap
;;; call
(drop (call $answer (i32.const 16) (i32.const 4)))
(i32.store8 (i32.const 5132) (i32.const 7))
(return (i32.const 5120))
