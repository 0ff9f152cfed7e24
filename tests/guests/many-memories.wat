;; Brings a hundred memories of its own.
;; rows: W6
;; loads: memor
;;; fields
;;* 100 (memory 1)
