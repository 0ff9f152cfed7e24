;; Describes no tool.
;; rows: W19
;; loads: no tool
;; tools: 0
