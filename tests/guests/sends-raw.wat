;; Sends a raw request to an address that no profile of the public web grants.
;; rows: N22
;; ends: refused
;; imports: http-and-environment
;; case: N1 "127.0.0.1:{port}"
;; case: N1 "127.1:{port}"
;; case: N1 "127.255.255.254:{port}"
;; case: N1 "localhost:{port}"
;; case: N1 "localhost.:{port}"
;; case: N1 "LOCALHOST:{port}"
;; case: N2 "2130706433:{port}"
;; case: N2 "017700000001:{port}"
;; case: N2 "0177.0.0.1:{port}"
;; case: N2 "0x7f000001:{port}"
;; case: N2 "0x7f.0.0.1:{port}"
;; case: N2 "0x7f.1:{port}"
;; case: N2 "4294967297:{port}"
;; case: N2 "127.0.0.257:{port}"
;; case: N3 "0.0.0.0:{port}"
;; case: N3 "0:{port}"
;; case: N3 "[::]:{port}"
;; case: N3 "[::1]:{port}"
;; case: N3 "[0:0:0:0:0:0:0:1]:{port}"
;; case: N4 "[::ffff:127.0.0.1]:{port}"
;; case: N4 "[::ffff:7f00:1]:{port}"
;; case: N4 "[::127.0.0.1]:{port}"
;; case: N4 "[64:ff9b::7f00:1]:{port}"
;; case: N4 "[64:ff9b:1::7f00:1]:{port}"
;; case: N4 "[2002:7f00:1::]:{port}"
;; case: N4 "[2001::7f00:1]:{port}"
;; case: N4 "[fe80::1%25lo]:{port}"
;; case: N4 "[fe80::1]:{port}"
;; case: N4 "[fc00::1]:{port}"
;; case: N5 "10.0.0.1"
;; case: N5 "172.16.0.1"
;; case: N5 "192.168.0.1"
;; case: N5 "169.254.169.254"
;; case: N5 "100.64.0.1"
;; case: N5 "192.0.0.1"
;; case: N5 "198.18.0.1"
;; case: N5 "224.0.0.1"
;; case: N5 "240.0.0.1"
;; case: N5 "255.255.255.255"
;; case: N6 "example.com@127.0.0.1:{port}"
;; case: N6 "a@b@127.0.0.1:{port}"
;; case: N6 "127.0.0.1:{port}\\@example.com"
;; case: N6 "127.0.0.1:{port}#@example.com"
;; case: N6 "127.0.0.1:{port}?@example.com"
;; case: N6 "127.0.0.1:{port}/@example.com"
;; case: N8 "\uff11\uff12\uff17.\uff10.\uff10.\uff11:{port}"
;; case: N8 "\u2460\u2461\u2466.0.0.1:{port}"
;; case: N8 "127\u30020\u30020\u30021:{port}"
;; case: N8 "loc\u00adalhost:{port}"
;; case: N8 "\u24dbocalhost:{port}"
;; case: N9 "127.0.0.1.:{port}"
;; case: N9 "127.0.0.1:0"
;; case: N9 "127.0.0.1:65536"
;; case: N9 "127.0.0.1:-1"
;; case: N9 "127.0.0.1:{port}:80"
;; case: N15 "127.0.0.1:{port}\r\nHost: example.com"
;; case: N15 "127.0.0.1:{port} HTTP/1.1"
;; case: N20 "127.0.0.1:22"
;; case: N20 "127.0.0.1:25"
;; case: N20 "127.0.0.1:6379"
;; case: N22 "127.0.0.1:{port}"
;;; fields
(data (i32.const 3072) "/")
;;; call
(local $request i32) (local $future i32)
(local.set $arguments_length (call $payload (local.get $arguments) (local.get $arguments_length)))
(local.set $request (call $request (call $fields)))
(if (call $set_scheme (local.get $request) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0))
  (then unreachable))
(if (call $set_authority (local.get $request) (i32.const 1) (local.get $arguments) (local.get $arguments_length))
  (then unreachable))
(if (call $set_path (local.get $request) (i32.const 1) (i32.const 3072) (i32.const 1))
  (then unreachable))
(call $handle (local.get $request) (i32.const 0) (i32.const 0) (i32.const 6208))
(if (i32.load8_u (i32.const 6208)) (then unreachable))
(local.set $future (i32.load (i32.const 6216)))
(call $block (call $subscribe (local.get $future)))
(call $get (local.get $future) (i32.const 6256))
;; An error instead of an answer.
(if (i32.load8_u (i32.const 6272)) (then unreachable))
