;; Runs, and says that it failed.
;;; call
(i32.store8 (i32.const 5120) (i32.const 1))
(i32.store8 (i32.const 5124) (i32.const 2))
(call $string (i32.const 5128) (i32.const 16) (i32.const 5))
(return (i32.const 5120))
