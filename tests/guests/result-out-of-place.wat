;; Says that its answer lies where none can be.
;; rows: W11
;; ends: trap
;; case: W11 5121
;; case: W11 65535
;; case: W11 4294967292
;; case: W11 2147483648
;;; call
(drop (call $payload (local.get $arguments) (local.get $arguments_length)))
(return (i32.load (local.get $arguments)))
