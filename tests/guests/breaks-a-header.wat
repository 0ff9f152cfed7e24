;; Sets a header whose value would end it and begin another.
;; rows: N15
;; ends: refused
;; imports: http-and-environment
;; case: N15 "x\r\nHost: example.com"
;; case: N15 "x\n"
;; case: N15 "x\u0000"
;;; fields
(data (i32.const 3072) "x-harmless")
;;; call
(local.set $arguments_length (call $payload (local.get $arguments) (local.get $arguments_length)))
(call $append (call $fields) (i32.const 3072) (i32.const 10)
  (local.get $arguments) (local.get $arguments_length) (i32.const 6200))
(if (i32.load8_u (i32.const 6200)) (then unreachable))
