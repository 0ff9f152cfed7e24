;; Imports calls of other tools without being bound to a profile that grants them.
;; rows: W21
;; imports: claw:host/tools@0.1.0
