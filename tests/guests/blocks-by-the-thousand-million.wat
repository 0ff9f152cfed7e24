;; Claims an answer of a thousand million blocks.
;; rows: W10 W11
;; ends: any
;;; call
(i32.store8 (i32.const 5120) (i32.const 0))
(call $string (i32.const 5124) (i32.const 8192) (i32.const 1000000000))
(return (i32.const 5120))
