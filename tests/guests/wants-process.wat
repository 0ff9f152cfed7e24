;; Imports native processes without a grant.
;; rows: W21
;; imports: claw:host/process@0.1.0
