;; Imports an interface that no version of the host serves yet.
;; loads: claw:host/tools@0.1.0
;; imports: tools
