;; Describes a tool whose schema is no JSON.
;; loads: no JSON
;; schema: {"type":
