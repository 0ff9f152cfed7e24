;; Hits an instruction that cannot be carried out.
;;; call
(unreachable)
