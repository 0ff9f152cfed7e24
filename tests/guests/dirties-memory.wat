;; Fills 32 MiB with a pattern, so that whoever gets the memory next could find it.
;; rows: W24
;;; call
(drop (memory.grow (i32.const 512)))
(memory.fill (i32.const 8192) (i32.const 165) (i32.const 33546240))
