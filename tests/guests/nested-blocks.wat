;; Nests more blocks than are compiled.
;; rows: W20
;; loads: nested blocks
;;; fields
(func
;;* 6000 (block
;;* 6000 )
)
