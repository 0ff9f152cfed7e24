;; Removes a path in every granted folder as a file and as a folder, and makes a folder of the name.
;; rows: F14
;; ends: any
;; imports: files
;; case: F1 "{outside}/canary.txt"
;; case: F1 "{outside}"
;; case: F2 "{absolute}/canary.txt"
;; case: F5 "dir_link/canary.txt"
;; case: F14 "inside.txt"
;; case: F15 "."
;; case: F15 ".."
;;; call
(local $root i32) (local $left i32)
(local.set $arguments_length (call $payload (local.get $arguments) (local.get $arguments_length)))
(call $directories (i32.const 6144))
(local.set $root (i32.load (i32.const 6144)))
(local.set $left (i32.load (i32.const 6148)))
(block $done (loop $next
  (br_if $done (i32.eqz (local.get $left)))
  (call $unlink (i32.load (local.get $root)) (local.get $arguments) (local.get $arguments_length) (i32.const 6160))
  (call $remove_directory (i32.load (local.get $root)) (local.get $arguments) (local.get $arguments_length) (i32.const 6160))
  (call $create_directory (i32.load (local.get $root)) (local.get $arguments) (local.get $arguments_length) (i32.const 6160))
  (local.set $root (i32.add (local.get $root) (i32.const 12)))
  (local.set $left (i32.sub (local.get $left) (i32.const 1)))
  (br $next)))
