;; Imports an interface that no version of the host serves yet.
;; rows: W21
;; imports: claw:host/elicitation@0.1.0
