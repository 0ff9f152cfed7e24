;; Sets a header that is not the guest's to set, or is none.
;; rows: N15
;; ends: refused
;; imports: http-and-environment
;; case: N15 "host"
;; case: N15 "Host"
;; case: N15 "transfer-encoding"
;; case: N15 "connection"
;; case: N15 "proxy-authorization"
;; case: N15 "upgrade"
;; case: N15 "keep-alive"
;; case: N15 ""
;; case: N15 "a b"
;; case: N15 "a\r\nb"
;; case: N15 "a:b"
;; case: N15 "a\u0000b"
;; case: N15 "h\u00f6st"
;;; fields
(data (i32.const 3072) "x")
;;; call
(local.set $arguments_length (call $payload (local.get $arguments) (local.get $arguments_length)))
(call $append (call $fields) (local.get $arguments) (local.get $arguments_length)
  (i32.const 3072) (i32.const 1) (i32.const 6200))
(if (i32.load8_u (i32.const 6200)) (then unreachable))
