;; Asks for more random bytes in one call than a guest can hold.
;; rows: W15
;; ends: -32010 RANDOM_BYTES_MAX
;; imports: random
;; case: W15 65537
;; case: W15 1099511627776
;; case: W15 9223372036854775808
;; case: W15 18446744073709551615
;;; call
(drop (call $payload (local.get $arguments) (local.get $arguments_length)))
(call $random (i64.load (local.get $arguments)) (i32.const 6144))
