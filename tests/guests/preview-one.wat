;; Is a module for the first version of WASI that is a library and no program.
;; rows: W19
;; loads: core module
;; binary: whole
;;; raw
(module
  (import "wasi_snapshot_preview1" "path_open"
    (func (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_initialize")))
