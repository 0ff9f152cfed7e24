;; Describes the same tool twice.
;; rows: W27
;; loads: twice
;; tools: 2
