;; Answers with a million empty blocks.
;; rows: W10
;; ends: -32010 max_output_bytes
;;; call
(drop (memory.grow (i32.const 700)))
(i32.store8 (i32.const 5120) (i32.const 0))
(call $string (i32.const 5124) (i32.const 65536) (i32.const 1000000))
(i32.store8 (i32.const 5132) (i32.const 0))
(return (i32.const 5120))
