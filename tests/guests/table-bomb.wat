;; Grows its table by a hundred million elements.
;; rows: W7
;; ends: -32010 GUEST_TABLE_ELEMENTS_MAX
;;; fields
(table $table 1 funcref)
;;; call
(drop (table.grow $table (ref.null func) (i32.const 100000000)))
