;; Is a module, and not a component.
;; rows: W19
;; loads: core module
;; binary: whole
;;; raw
(module (func (export "call")))
