;; Hands the host memory that it does not have.
;; rows: W11
;; ends: trap
;;; realloc
(return (i32.const -8))
