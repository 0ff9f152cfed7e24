;; Says a line whose length in bytes is more than a number can say.
;; rows: W11
;; ends: trap
;; imports: log
;;; call
(call $log_utf16 (i32.const 2) (i32.const 6144) (i32.const 0x7fffffff))
