;; Fills a table over and over.
;; rows: W7 W1
;; ends: -32014 any
;;; fields
(table $table 90000 funcref)
;;; call
(loop $forever
  (table.fill $table (i32.const 0) (ref.null func) (i32.const 90000))
  (br $forever))
