;; Nests more components in each other than are read.
;; rows: W22
;; loads: nested
;;; raw
(component
;;* 101 (component)
)
