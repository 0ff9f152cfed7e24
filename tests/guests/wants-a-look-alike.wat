;; Imports an interface whose name only looks like one that is granted.
;; rows: W21
;; imports: wasi:iox/streams@0.2.12
