;; Is an empty file.
;; rows: W19
;; loads: empty
;; binary: none
