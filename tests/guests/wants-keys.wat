;; Imports keys and values without being bound to a profile that grants them.
;; rows: W21
;; imports: claw:host/memory@0.1.0
