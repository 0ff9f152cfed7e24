;; Answers neither well nor badly.
;; rows: W12
;; ends: trap
;;; call
(drop (call $answer (i32.const 16) (i32.const 4)))
(i32.store8 (i32.const 5120) (i32.const 2))
(return (i32.const 5120))
