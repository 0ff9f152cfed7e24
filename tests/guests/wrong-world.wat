;; A sound component that exports something else.
;; rows: W19
;; loads: another world
;; export: other:thing/api@1.0.0
