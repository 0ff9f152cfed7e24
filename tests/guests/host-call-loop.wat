;; Calls the host over and over; each call is tiny and returns at once.
;; rows: W4
;; ends: -32014 timeout_ms
;; imports: clock
;;; call
(loop $forever (drop (call $now)) (br $forever))
