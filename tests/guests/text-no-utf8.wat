;; Answers with bytes that look like text and are none: cut short, too long, or half a letter.
;; rows: W11 F18
;; ends: trap
;; case: W11 128
;; case: W11 44992
;; case: W11 8421600
;; case: W11 8429805
;; case: W11 2155909364
;; case: W11 4294967295
;;; call
(drop (call $payload (local.get $arguments) (local.get $arguments_length)))
(return (call $answer (local.get $arguments) (i32.const 4)))
