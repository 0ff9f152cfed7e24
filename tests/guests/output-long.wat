;; Answers with 1 MiB: allowed by the profile, cut for the caller.
;; rows: W16
;;; call
(drop (memory.grow (i32.const 32)))
(memory.fill (i32.const 65536) (i32.const 97) (i32.const 1048576))
(return (call $answer (i32.const 65536) (i32.const 1048576)))
