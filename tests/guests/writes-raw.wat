;; Creates or empties a path in every granted folder with raw calls, and writes there.
;; rows: F13
;; ends: any
;; imports: files
;; case: F1 "{outside}/canary.txt"
;; case: F1 "{outside}/new.txt"
;; case: F2 "{absolute}/canary.txt"
;; case: F2 "{absolute}/new.txt"
;; case: F4 "link"
;; case: F4 "relative_link"
;; case: F4 "dangling"
;; case: F4 "relative_dangling"
;; case: F5 "dir_link/canary.txt"
;; case: F5 "dir_link/new.txt"
;; case: F5 "up/new.txt"
;; case: F13 "inside.txt"
;; case: F15 "inside.txt/"
;; case: F15 "sub"
;; case: F16 "{outside}/new.txt\u0000"
;; case: F19 "\uff0e\uff0e/outside/new.txt"
;; case: F22 "pipe"
;; case: F23 "zero"
;; case: F25 "/proc/self/mem"
;; case: F25 "memory_link"
;;; fields
(data (i32.const 3072) "written by a guest")
;;; call
(local $root i32) (local $left i32)
(local.set $arguments_length (call $payload (local.get $arguments) (local.get $arguments_length)))
(call $directories (i32.const 6144))
(local.set $root (i32.load (i32.const 6144)))
(local.set $left (i32.load (i32.const 6148)))
(block $done (loop $next
  (br_if $done (i32.eqz (local.get $left)))
  ;; To be created or emptied, for reading and writing; then only to be emptied, for reading.
  (call $open_at (i32.load (local.get $root)) (i32.const 1) (local.get $arguments)
    (local.get $arguments_length) (i32.const 9) (i32.const 3) (i32.const 6160))
  (if (i32.eqz (i32.load8_u (i32.const 6160))) (then
    (call $write (i32.load (i32.const 6164)) (i32.const 3072) (i32.const 18) (i64.const 0) (i32.const 6176))))
  (call $open_at (i32.load (local.get $root)) (i32.const 1) (local.get $arguments)
    (local.get $arguments_length) (i32.const 8) (i32.const 1) (i32.const 6160))
  (if (i32.eqz (i32.load8_u (i32.const 6160))) (then
    (call $set_size (i32.load (i32.const 6164)) (i64.const 1) (i32.const 6176))))
  (local.set $root (i32.add (local.get $root) (i32.const 12)))
  (local.set $left (i32.sub (local.get $left) (i32.const 1)))
  (br $next)))
