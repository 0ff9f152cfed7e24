;; Is a good component without its end.
;; rows: W19 W27
;; loads: damaged or truncated
;; binary: half
