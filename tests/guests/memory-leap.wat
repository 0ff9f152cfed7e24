;; Asks for 4 GiB at once.
;; rows: W6
;; ends: -32010 memory_mb
;;; call
(drop (memory.grow (i32.const 65534)))
