;; Describes a tool whose schema is no JSON.
;; rows: W19
;; loads: no JSON
;; schema: {"type":
