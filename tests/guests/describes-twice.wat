;; Describes the same tool twice.
;; loads: twice
;; tools: 2
