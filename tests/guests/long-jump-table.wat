;; Has one function with a jump table of a megabyte.
;; rows: W20
;; loads: one function
;; binary: whole
;;; fields
(func (param i32)
(block (block (br_table
;;* 1100000 0
1 (local.get 0)))))
