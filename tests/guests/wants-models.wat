;; Imports language models without being bound to a profile that grants them.
;; rows: W21
;; imports: claw:host/provider@0.1.0
