;; Grows its memory a page at a time for as long as it is let.
;; rows: W6
;; ends: -32010 memory_mb
;;; call
(loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
