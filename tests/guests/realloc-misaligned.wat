;; Hands the host memory at an odd address, and at the end of its memory.
;; rows: W11
;; ends: any
;;; realloc
(return (i32.const 65533))
