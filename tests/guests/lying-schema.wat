;; Describes a tool whose schema is JSON and no JSON Schema.
;; rows: M9
;; loads: schema
;; schema: {"type":"object","properties":{"a":{"type":"no such type"}}}
