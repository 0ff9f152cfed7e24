;; Never finishes its instantiation.
;; rows: W2
;; loads: did not answer within
;;; fields
(func $begin (loop $forever (br $forever)))
;;; start
(start $begin)
