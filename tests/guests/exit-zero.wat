;; Leaves with exit code 0 instead of answering: never to be taken for success.
;; rows: W18
;; ends: exit
;; imports: exit
;;; call
(call $exit (i32.const 0))
