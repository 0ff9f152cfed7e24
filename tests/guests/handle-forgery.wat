;; Uses a handle that it was never given.
;; ends: trap
;; imports: clock
;;; call
(call $block (i32.const 77))
