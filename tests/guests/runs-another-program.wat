;; Starts a program that is not the system's own.
;; rows: X2
;; ends: any
;; imports: process
;; case: X2 "./inside.txt"
;; case: X2 "sub/../inside.txt"
;; case: X2 ""
;; case: X2 "link"
;; case: X2 "{absolute}/secret"
;; case: X2 "../bin/sh"
;; case: X2 "sh\u0000x"
;;; call
(local.set $arguments_length (call $payload (local.get $arguments) (local.get $arguments_length)))
(call $string (i32.const 6400) (local.get $arguments) (local.get $arguments_length))
(call $run (i32.const 2) (i32.const 6400) (i32.const 1) (i32.const 0) (i32.const 0)
  (i32.const 1000) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 6144))
(if (i32.load8_u (i32.const 6144)) (then unreachable))
