;; Calls another tool over and over, whatever becomes of it.
;; rows: C3
;; ends: any
;; imports: tools
;;; fields
(data (i32.const 3072) "answer{}")
;;; realloc
(global.set $free (i32.const 8192))
;;; call
(loop $forever
  (call $tool (i32.const 3072) (i32.const 6) (i32.const 3078) (i32.const 2)
    (i32.const 0) (i32.const 0) (i32.const 6144))
  (br $forever))
