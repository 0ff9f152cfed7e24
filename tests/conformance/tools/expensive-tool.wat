;; Asks the provider for more tokens than a day has.
;; imports: provider
;;; fields
(data (i32.const 6400) "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}],\"max_tokens\":1000}")
;;; call
(call $complete (i32.const 6400) (i32.const 66) (i32.const 6144))
(if (i32.load8_u (i32.const 6144)) (then
  (i32.store8 (i32.const 5120) (i32.const 1))
  (i32.store8 (i32.const 5124) (i32.const 2))
  (call $string (i32.const 5128) (i32.load (i32.const 6152)) (i32.load (i32.const 6156)))
  (return (i32.const 5120))))
