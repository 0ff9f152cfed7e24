;; Claims a list of a hundred million tools.
;; rows: W10
;; loads: describe
;; tools: 100000000
