;; Has many locals and many blocks, which takes minutes to compile.
;; rows: W20
;; loads: locals times blocks
;;; fields
(func
;;* 40000 (local i32)
;;* 20000 (block)
)
