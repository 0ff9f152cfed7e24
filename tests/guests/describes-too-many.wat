;; Claims a list of a hundred million tools.
;; loads: describe
;; tools: 100000000
