;; Never says what it offers.
;; loads: did not answer within
;;; describe
(loop $forever (br $forever))
