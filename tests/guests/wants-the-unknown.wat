;; Imports an interface nobody has heard of.
;; rows: W21
;; imports: evil:host/all@1.0.0
