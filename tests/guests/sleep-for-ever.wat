;; Sleeps for as long as a number can say.
;; rows: W3 W15
;; ends: -32014 timeout_ms
;; imports: clock
;;; call
(call $block (call $subscribe (i64.const -1)))
