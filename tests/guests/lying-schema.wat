;; Describes a tool whose schema is JSON and no JSON Schema.
;; loads: schema
;; schema: {"type":"object","properties":{"a":{"type":"no such type"}}}
