;; Has more types than are read.
;; rows: W20
;; loads: types
;; binary: whole
;;; fields
;;* 100001 (type (func))
