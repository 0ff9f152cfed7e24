;; Says a line at a level that there is none of.
;; rows: W12
;; ends: trap
;; imports: log
;; case: W12 5
;; case: W12 255
;; case: W12 4294967295
;;; call
(drop (call $payload (local.get $arguments) (local.get $arguments_length)))
(call $log (i32.load (local.get $arguments)) (i32.const 16) (i32.const 4))
