;; Uses handles that it was never given.
;; rows: W13
;; ends: trap
;; imports: clock
;; case: W13 0
;; case: W13 1
;; case: W13 77
;; case: W13 2147483647
;; case: W13 2147483648
;; case: W13 4294967295
;;; call
(drop (call $payload (local.get $arguments) (local.get $arguments_length)))
(call $block (i32.load (local.get $arguments)))
