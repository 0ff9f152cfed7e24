;; Traps.
;; rows: W18
;; ends: trap
;;; call
unreachable
