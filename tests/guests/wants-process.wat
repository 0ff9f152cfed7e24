;; Imports native processes without a grant.
;; loads: claw:host/process@0.1.0
;; imports: process
