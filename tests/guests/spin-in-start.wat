;; Never finishes its instantiation.
;; loads: did not answer within
;;; fields
(func $begin (loop $forever (br $forever)))
;;; start
(start $begin)
