;; Describes a tool that takes no object.
;; loads: type: object
;; schema: {"type":"string"}
