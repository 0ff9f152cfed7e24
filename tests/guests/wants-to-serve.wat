;; Imports the wrong side of HTTP.
;; rows: W21 N22
;; imports: wasi:http/incoming-handler@0.2.12
