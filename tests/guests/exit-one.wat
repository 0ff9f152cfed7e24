;; Leaves with exit code 1.
;; rows: W18
;; ends: exit
;; imports: exit
;;; call
(call $exit (i32.const 1))
