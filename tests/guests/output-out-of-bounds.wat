;; Answers with a string that lies outside its memory.
;; rows: W11
;; ends: trap
;;; call
(return (call $answer (i32.const 65000) (i32.const 65536)))
