;; Describes a tool that takes no object.
;; rows: W19
;; loads: type: object
;; schema: {"type":"string"}
