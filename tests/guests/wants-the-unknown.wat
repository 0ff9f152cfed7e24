;; Imports an interface nobody has heard of.
;; loads: evil:host/all@1.0.0
;; imports: unknown
