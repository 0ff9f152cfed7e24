;; Is a good component with one byte of its head changed.
;; rows: W19
;; loads: damaged or truncated
;; binary: changed
