;; Asks the host for the secret TOKEN and answers with it; traps where there is none.
;; rows: N23
;; ends: any
;; imports: secrets
;;; fields
(data (i32.const 3072) "TOKEN")
;;; call
(call $secret (i32.const 3072) (i32.const 5) (i32.const 6144))
(if (i32.eqz (i32.load8_u (i32.const 6144))) (then unreachable))
(return (call $answer (i32.load (i32.const 6148)) (i32.load (i32.const 6152))))
