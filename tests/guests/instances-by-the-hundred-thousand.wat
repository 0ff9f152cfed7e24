;; Makes a hundred thousand instances of one module.
;; rows: W22
;; loads: instances
;; binary: whole
;;; extra
(core module $empty)
;;* 100000 (core instance (instantiate $empty))
