;; Opens standard input over and over and never gives a stream back.
;; rows: W14
;; ends: -32010 max_open_files
;; imports: stdin
;;; call
(loop $forever (drop (call $get_stdin)) (br $forever))
