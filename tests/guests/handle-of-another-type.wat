;; Hands a stream over where the host expects a pollable.
;; rows: W13
;; ends: trap
;; imports: stdin
;;; call
(call $block (call $get_stdin))
