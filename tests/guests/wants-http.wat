;; Imports HTTP without being bound to a profile that grants it.
;; loads: wasi:http/outgoing-handler@0.2.12
;; imports: http
