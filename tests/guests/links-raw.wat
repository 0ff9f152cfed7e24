;; Makes a symbolic link to a path, and reads what it leads to.
;; rows: F7
;; ends: refused
;; imports: files
;; case: F7 "{absolute}/canary.txt"
;; case: F7 "{outside}/canary.txt"
;; case: F7 "/etc/passwd"
;; case: F7 "/proc/self/environ"
;; case: F7 "link"
;; case: F7 "sub/../{outside}/canary.txt"
;;; fields
(data (i32.const 3072) "made-link")
;;; call
(local $root i32) (local $left i32)
(local.set $arguments_length (call $payload (local.get $arguments) (local.get $arguments_length)))
(call $directories (i32.const 6144))
(local.set $root (i32.load (i32.const 6144)))
(local.set $left (i32.load (i32.const 6148)))
(if (i32.eqz (local.get $left)) (then unreachable))
(call $symlink (i32.load (local.get $root)) (local.get $arguments) (local.get $arguments_length)
  (i32.const 3072) (i32.const 9) (i32.const 6160))
(call $open_at (i32.load (local.get $root)) (i32.const 1) (i32.const 3072) (i32.const 9)
  (i32.const 0) (i32.const 1) (i32.const 6160))
(if (i32.load8_u (i32.const 6160)) (then unreachable))
(call $read (i32.load (i32.const 6164)) (i64.const 4096) (i64.const 0) (i32.const 6176))
(if (i32.load8_u (i32.const 6176)) (then unreachable))
(return (call $answer (i32.load (i32.const 6180)) (i32.load (i32.const 6184))))
