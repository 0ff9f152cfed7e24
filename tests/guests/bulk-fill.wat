;; Fills 60 MiB over and over: one instruction runs for milliseconds and cannot be interrupted.
;; rows: W1
;; ends: -32014 any
;;; call
(drop (memory.grow (i32.const 960)))
(loop $forever
  (memory.fill (i32.const 8192) (i32.const 170) (i32.const 62914560))
  (br $forever))
