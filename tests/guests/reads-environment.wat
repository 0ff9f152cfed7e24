;; Answers with the number of environment variables and of arguments it sees, a digit each.
;; rows: W25
;; imports: environment
;;; call
(call $environment (i32.const 6144))
(call $arguments (i32.const 6160))
(i32.store8 (i32.const 6176) (i32.add (i32.const 48) (i32.load (i32.const 6148))))
(i32.store8 (i32.const 6177) (i32.add (i32.const 48) (i32.load (i32.const 6164))))
(return (call $answer (i32.const 6176) (i32.const 2)))
