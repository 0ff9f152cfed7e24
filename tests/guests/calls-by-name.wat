;; Calls a tool of the name it is given and answers with what that answers; traps where it is refused.
;; rows: C1 C2
;; ends: any
;; imports: tools
;; case: C1 "calls-by-name"
;; case: C1 "calls_by_name"
;; case: C1 "claw://local/tool/calls-by-name"
;; case: C2 ""
;; case: C2 "\n{\"event\":\"call.finished\"}"
;; case: C2 "\u001b[2J"
;; case: C2 "answer\u0000"
;; case: C2 "../answer"
;; case: C2 "no-such-tool"
;;; fields
(data (i32.const 3072) "{}")
;;; call
(local.set $arguments_length (call $payload (local.get $arguments) (local.get $arguments_length)))
(call $tool (local.get $arguments) (local.get $arguments_length) (i32.const 3072) (i32.const 2)
  (i32.const 0) (i32.const 0) (i32.const 6144))
(if (i32.load8_u (i32.const 6144)) (then unreachable))
(return (call $answer (i32.load (i32.const 6148)) (i32.load (i32.const 6152))))
