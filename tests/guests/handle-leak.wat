;; Makes pollables and never drops one.
;; rows: W14
;; ends: -32010 max_open_files
;; imports: clock
;;; call
(loop $forever (drop (call $subscribe (i64.const 0))) (br $forever))
