;; Sets 32,769 headers on one request.
;; rows: W15
;; ends: any
;; imports: http-and-environment
;;; fields
(data (i32.const 3072) "x-harmless")
;;; call
(local $fields i32) (local $left i32)
(local.set $fields (call $fields))
(local.set $left (i32.const 32769))
(loop $more
  (call $append (local.get $fields) (i32.const 3072) (i32.const 10) (i32.const 3072) (i32.const 10) (i32.const 6200))
  (br_if $more (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
