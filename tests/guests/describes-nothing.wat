;; Describes no tool.
;; loads: no tool
;; tools: 0
