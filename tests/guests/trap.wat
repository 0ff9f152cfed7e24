;; Traps.
;; ends: trap
;;; call
unreachable
