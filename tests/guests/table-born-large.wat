;; Declares a table of four thousand million elements.
;; rows: W7
;; loads: table
;;; fields
(table 4294967295 funcref)
