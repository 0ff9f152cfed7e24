;; Sleeps for an hour: no instruction runs, so no fuel is used.
;; rows: W3
;; ends: -32014 timeout_ms
;; imports: clock
;;; call
(call $block (call $subscribe (i64.const 3600000000000)))
