;; Traps when its answer has been read.
;; rows: W2 W18
;; ends: trap
;;; post-return
unreachable
