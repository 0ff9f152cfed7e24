;; Runs a program with a network that the profile does not grant it.
;; rows: X13
;; ends: refused
;; imports: process
;; case: X13 "bash -c \"echo x > /dev/tcp/127.0.0.1/{port}\""
;;; call
(local.set $arguments_length (call $payload (local.get $arguments) (local.get $arguments_length)))
(call $run (i32.const 0) (local.get $arguments) (local.get $arguments_length) (i32.const 0) (i32.const 0)
  (i32.const 1000) (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 6144))
(if (i32.load8_u (i32.const 6144)) (then unreachable))
