;; Takes all memory it can get when the host asks for some to hand over the arguments.
;; rows: W2 W6
;; ends: -32010 memory_mb
;;; realloc
(loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
