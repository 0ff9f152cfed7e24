;; Answers with a list that lies outside its memory.
;; rows: W11
;; ends: trap
;;; call
(i32.store8 (i32.const 5120) (i32.const 0))
(call $string (i32.const 5124) (i32.const -16) (i32.const 4))
(return (i32.const 5120))
