;; Describes a tool whose schema lies on a server: looking it up would be a connection.
;; rows: M9
;; loads: schema
;; schema: {"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:9/schema.json"}}}
