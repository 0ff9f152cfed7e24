;; Sleeps for an hour: no instruction runs, so no fuel is used.
;; imports: clock
;;; call
(call $block (call $subscribe (i64.const 3600000000000)))
