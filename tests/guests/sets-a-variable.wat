;; Runs a program with a variable that decides which code runs, or is none.
;; rows: X5 X18
;; ends: refused
;; imports: process
;; case: X5 "LD_PRELOAD"
;; case: X5 "LD_LIBRARY_PATH"
;; case: X5 "BASH_ENV"
;; case: X5 "ENV"
;; case: X5 "PYTHONSTARTUP"
;; case: X5 "PATH"
;; case: X5 "IFS"
;; case: X5 "GIT_SSH_COMMAND"
;; case: X5 "NODE_OPTIONS"
;; case: X5 "A=B"
;; case: X5 ""
;; case: X5 "A\u0000B"
;;; fields
(data (i32.const 3072) "/usr/bin/env")
;;; call
(local.set $arguments_length (call $payload (local.get $arguments) (local.get $arguments_length)))
(call $string (i32.const 6400) (local.get $arguments) (local.get $arguments_length))
(call $string (i32.const 6408) (i32.const 3072) (i32.const 12))
(call $run (i32.const 0) (i32.const 3072) (i32.const 12) (i32.const 0) (i32.const 0)
  (i32.const 1000) (i32.const 6400) (i32.const 1) (i32.const 0) (i32.const 6144))
(if (i32.load8_u (i32.const 6144)) (then unreachable))
