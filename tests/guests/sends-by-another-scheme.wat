;; Sends a raw request by a scheme that is not HTTP.
;; rows: N14
;; ends: refused
;; imports: http-and-environment
;; case: N14 "file"
;; case: N14 "ftp"
;; case: N14 "gopher"
;; case: N14 "dict"
;; case: N14 "jar"
;; case: N14 "ws"
;; case: N14 "data"
;; case: N14 "unix"
;; case: N14 "http+unix"
;; case: N14 "javascript"
;; case: N14 ""
;;; fields
(data (i32.const 3072) "localhost/etc/passwd")
;;; call
(local $request i32) (local $future i32)
(local.set $arguments_length (call $payload (local.get $arguments) (local.get $arguments_length)))
(local.set $request (call $request (call $fields)))
(if (call $set_scheme (local.get $request) (i32.const 1) (i32.const 2) (local.get $arguments) (local.get $arguments_length))
  (then unreachable))
(if (call $set_authority (local.get $request) (i32.const 1) (i32.const 3072) (i32.const 9))
  (then unreachable))
(if (call $set_path (local.get $request) (i32.const 1) (i32.const 3081) (i32.const 11))
  (then unreachable))
(call $handle (local.get $request) (i32.const 0) (i32.const 0) (i32.const 6208))
(if (i32.load8_u (i32.const 6208)) (then unreachable))
(local.set $future (i32.load (i32.const 6216)))
(call $block (call $subscribe (local.get $future)))
(call $get (local.get $future) (i32.const 6256))
(if (i32.load8_u (i32.const 6272)) (then unreachable))
