;; Asks for a terabyte of random bytes in one call.
;; ends: trap
;; imports: random
;;; call
(call $random (i64.const 1099511627776) (i32.const 6144))
