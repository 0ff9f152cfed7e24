;; Answers with a block of a kind that there is none of.
;; rows: W12
;; ends: trap
;;; call
(drop (call $answer (i32.const 16) (i32.const 4)))
(i32.store8 (i32.const 5152) (i32.const 200))
(return (i32.const 5120))
