;; A sound component that exports something else.
;; loads: another world
;; export: other:thing/api@1.0.0
