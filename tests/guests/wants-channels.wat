;; Imports channels without being bound to a profile that grants one.
;; rows: W21
;; imports: claw:host/channels@0.1.0
