;; Hands the host a line of 50 MiB that it does have.
;; rows: W9
;; ends: -32010 max_output_bytes
;; imports: log
;;; call
(drop (memory.grow (i32.const 900)))
(call $log (i32.const 2) (i32.const 65536) (i32.const 52428800))
