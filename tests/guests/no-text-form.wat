;; Is text that looks like a component and is none.
;; rows: W19
;; loads: does not parse
;;; raw
(component (core module (func (i32.const
