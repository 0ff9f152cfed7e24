;; Says a line of two-byte letters at an odd address.
;; rows: W11
;; ends: trap
;; imports: log
;;; call
(call $log_utf16 (i32.const 2) (i32.const 6145) (i32.const 4))
