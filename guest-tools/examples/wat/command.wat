;; A WASI command, by hand: it writes to standard output and succeeds.
(component
  (import "wasi:io/error@0.2.0" (instance $error (export "error" (type (sub resource)))))
  (alias export $error "error" (type $error-type))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (alias outer 1 $error-type (type $e))
    (export "error" (type $error (eq $e)))
    (export "output-stream" (type $out (sub resource)))
    (type $failed (variant (case "last-operation-failed" (own $error)) (case "closed")))
    (export "stream-error" (type $stream-error (eq $failed)))
    (export "[method]output-stream.blocking-write-and-flush"
      (func (param "self" (borrow $out)) (param "contents" (list u8))
        (result (result (error $stream-error)))))))
  (alias export $streams "output-stream" (type $out))
  (import "wasi:cli/stdout@0.2.0" (instance $stdout
    (alias outer 1 $out (type $o))
    (export "output-stream" (type $out (eq $o)))
    (export "get-stdout" (func (result (own $out))))))
  (core module $memory
    (memory (export "memory") 1)
    (data (i32.const 64) "hello\n"))
  (core instance $memory (instantiate $memory))
  (alias core export $memory "memory" (core memory $mem))
  (alias export $stdout "get-stdout" (func $get-stdout))
  (alias export $streams "[method]output-stream.blocking-write-and-flush" (func $write))
  (core func $get-stdout (canon lower (func $get-stdout)))
  (core func $write (canon lower (func $write) (memory $mem)))
  (core module $code
    (import "host" "get-stdout" (func $get-stdout (result i32)))
    (import "host" "write" (func $write (param i32 i32 i32 i32)))
    (func (export "run") (result i32)
      (call $write (call $get-stdout) (i32.const 64) (i32.const 6) (i32.const 16))
      (i32.const 0)))
  (core instance $code (instantiate $code (with "host" (instance
    (export "get-stdout" (func $get-stdout))
    (export "write" (func $write))))))
  (func $run (result (result)) (canon lift (core func $code "run")))
  (component $world
    (import "run" (func $run (result (result))))
    (export "run" (func $run)))
  (instance $run (instantiate $world (with "run" (func $run))))
  (export "wasi:cli/run@0.2.0" (instance $run)))
