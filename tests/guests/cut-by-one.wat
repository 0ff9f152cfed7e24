;; Is a good component without its last byte.
;; rows: W19 W27
;; loads: damaged or truncated
;; binary: all but its end
