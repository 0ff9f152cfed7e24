;; Links and moves a path to a name of its own in the last granted folder, and writes to that.
;; rows: F10 F12
;; ends: any
;; imports: files
;; case: F10 "{outside}/canary.txt"
;; case: F10 "{absolute}/canary.txt"
;; case: F10 "link"
;; case: F10 "dir_link/canary.txt"
;; case: F12 "inside.txt"
;;; fields
(data (i32.const 3072) "taken.txt")
;;; call
(local $last i32)
(local $root i32) (local $left i32)
(local.set $arguments_length (call $payload (local.get $arguments) (local.get $arguments_length)))
(call $directories (i32.const 6144))
(local.set $root (i32.load (i32.const 6144)))
(local.set $left (i32.load (i32.const 6148)))
(if (i32.eqz (local.get $left)) (then unreachable))
(local.set $last (i32.add (local.get $root)
  (i32.mul (i32.const 12) (i32.sub (local.get $left) (i32.const 1)))))
(call $hard_link (i32.load (local.get $root)) (i32.const 1) (local.get $arguments)
  (local.get $arguments_length) (i32.load (local.get $last)) (i32.const 3072) (i32.const 9) (i32.const 6160))
(call $rename (i32.load (local.get $root)) (local.get $arguments) (local.get $arguments_length)
  (i32.load (local.get $last)) (i32.const 3072) (i32.const 9) (i32.const 6160))
(call $open_at (i32.load (local.get $last)) (i32.const 1) (i32.const 3072) (i32.const 9)
  (i32.const 8) (i32.const 3) (i32.const 6160))
(if (i32.load8_u (i32.const 6160)) (then unreachable))
(call $write (i32.load (i32.const 6164)) (i32.const 3072) (i32.const 9) (i64.const 0) (i32.const 6176))
