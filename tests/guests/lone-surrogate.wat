;; Says a line of half a letter: one of two code units that only mean something together.
;; rows: W11 W12
;; ends: trap
;; imports: log
;;; call
(i32.store16 (i32.const 6144) (i32.const 0xd800))
(call $log_utf16 (i32.const 2) (i32.const 6144) (i32.const 1))
