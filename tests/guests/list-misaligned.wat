;; Answers with a list at an odd address.
;; rows: W11
;; ends: trap
;;; call
(i32.store8 (i32.const 5120) (i32.const 0))
(call $string (i32.const 5124) (i32.const 8193) (i32.const 1))
(return (i32.const 5120))
