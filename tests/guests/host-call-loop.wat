;; Calls the host over and over; each call is tiny and returns at once.
;; ends: -32014 timeout_ms
;; imports: clock
;;; call
(loop $forever (drop (call $now)) (br $forever))
