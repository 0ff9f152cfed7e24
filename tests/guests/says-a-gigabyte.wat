;; Hands the host a line of a gigabyte that it does not have.
;; rows: W9 W11
;; ends: trap
;; imports: log
;;; call
(call $log (i32.const 2) (i32.const 65536) (i32.const 1073741824))
