;; Returns half a character, as a function that says it returns one.
;; rows: W12
;; ends: trap
;;; raw
(component
  (core module $code (func (export "call") (result i32) (i32.const 0xd800)))
  (core instance $code (instantiate $code))
  (func (export "no-such-character") (result char) (canon lift (core func $code "call"))))
