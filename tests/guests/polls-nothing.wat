;; Waits for an empty list of handles.
;; rows: W3
;; ends: trap
;; imports: clock
;;; call
(call $poll (i32.const 65536) (i32.const 0) (i32.const 6144))
