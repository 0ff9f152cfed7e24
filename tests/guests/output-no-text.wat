;; Answers with bytes that are no UTF-8.
;; rows: W11
;; ends: trap
;;; call
(i32.store (i32.const 6144) (i32.const -1))
(return (call $answer (i32.const 6144) (i32.const 4)))
