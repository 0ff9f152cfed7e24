;; Never says what it offers.
;; rows: W2
;; loads: did not answer within
;;; describe
(loop $forever (br $forever))
