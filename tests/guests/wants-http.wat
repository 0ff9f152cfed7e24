;; Imports HTTP without being bound to a profile that grants it.
;; rows: W21 N22
;; imports: wasi:http/outgoing-handler@0.2.12
