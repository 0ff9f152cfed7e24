//! What a guest needs to send one request and read the answer: the types of `wasi:http`, by hand.

use super::Parts;

const IMPORTS: &str = r#"
(import "wasi:io/error@0.2.12" (instance $io-error (export "error" (type (sub resource)))))
(alias export $io-error "error" (type $error))
(import "wasi:io/poll@0.2.12" (instance $poll
  (export "pollable" (type $pollable (sub resource)))
  (export "[method]pollable.block" (func (param "self" (borrow $pollable))))))
(alias export $poll "pollable" (type $pollable))
(import "wasi:io/streams@0.2.12" (instance $streams
  (alias outer 1 $error (type $e))
  (export "error" (type $error (eq $e)))
  (export "input-stream" (type $input-stream (sub resource)))
  (type $s (variant (case "last-operation-failed" (own $error)) (case "closed")))
  (export "stream-error" (type $stream-error (eq $s)))
  (export "[method]input-stream.blocking-read"
    (func (param "self" (borrow $input-stream)) (param "len" u64)
      (result (result (list u8) (error $stream-error)))))))
(alias export $streams "input-stream" (type $input-stream))
(import "wasi:http/types@0.2.12" (instance $http
  (alias outer 1 $input-stream (type $i))
  (export "input-stream" (type $input-stream (eq $i)))
  (alias outer 1 $pollable (type $p))
  (export "pollable" (type $pollable (eq $p)))
  (type $scheme' (variant (case "HTTP") (case "HTTPS") (case "other" string)))
  (export "scheme" (type $scheme (eq $scheme')))
  (type $dns' (record (field "rcode" (option string)) (field "info-code" (option u16))))
  (export "DNS-error-payload" (type $dns (eq $dns')))
  (type $tls' (record (field "alert-id" (option u8)) (field "alert-message" (option string))))
  (export "TLS-alert-received-payload" (type $tls (eq $tls')))
  (type $size' (record (field "field-name" (option string)) (field "field-size" (option u32))))
  (export "field-size-payload" (type $size (eq $size')))
  (type $code' (variant
    (case "DNS-timeout") (case "DNS-error" $dns) (case "destination-not-found")
    (case "destination-unavailable") (case "destination-IP-prohibited")
    (case "destination-IP-unroutable") (case "connection-refused") (case "connection-terminated")
    (case "connection-timeout") (case "connection-read-timeout") (case "connection-write-timeout")
    (case "connection-limit-reached") (case "TLS-protocol-error") (case "TLS-certificate-error")
    (case "TLS-alert-received" $tls) (case "HTTP-request-denied")
    (case "HTTP-request-length-required") (case "HTTP-request-body-size" (option u64))
    (case "HTTP-request-method-invalid") (case "HTTP-request-URI-invalid")
    (case "HTTP-request-URI-too-long") (case "HTTP-request-header-section-size" (option u32))
    (case "HTTP-request-header-size" (option $size))
    (case "HTTP-request-trailer-section-size" (option u32))
    (case "HTTP-request-trailer-size" $size) (case "HTTP-response-incomplete")
    (case "HTTP-response-header-section-size" (option u32)) (case "HTTP-response-header-size" $size)
    (case "HTTP-response-body-size" (option u64))
    (case "HTTP-response-trailer-section-size" (option u32))
    (case "HTTP-response-trailer-size" $size) (case "HTTP-response-transfer-coding" (option string))
    (case "HTTP-response-content-coding" (option string)) (case "HTTP-response-timeout")
    (case "HTTP-upgrade-failed") (case "HTTP-protocol-error") (case "loop-detected")
    (case "configuration-error") (case "internal-error" (option string))))
  (export "error-code" (type $error-code (eq $code')))
  (type $header' (variant (case "invalid-syntax") (case "forbidden") (case "immutable")))
  (export "header-error" (type $header-error (eq $header')))
  (export "fields" (type $fields (sub resource)))
  (export "outgoing-request" (type $request (sub resource)))
  (export "incoming-response" (type $response (sub resource)))
  (export "incoming-body" (type $body (sub resource)))
  (export "future-incoming-response" (type $future (sub resource)))
  (export "request-options" (type $options (sub resource)))
  (export "[constructor]fields" (func (result (own $fields))))
  (export "[method]fields.append"
    (func (param "self" (borrow $fields)) (param "name" string) (param "value" (list u8))
      (result (result (error $header-error)))))
  (export "[constructor]outgoing-request"
    (func (param "headers" (own $fields)) (result (own $request))))
  (export "[method]outgoing-request.set-scheme"
    (func (param "self" (borrow $request)) (param "scheme" (option $scheme)) (result (result))))
  (export "[method]outgoing-request.set-authority"
    (func (param "self" (borrow $request)) (param "authority" (option string)) (result (result))))
  (export "[method]outgoing-request.set-path-with-query"
    (func (param "self" (borrow $request)) (param "path-with-query" (option string)) (result (result))))
  (export "[method]future-incoming-response.subscribe"
    (func (param "self" (borrow $future)) (result (own $pollable))))
  (export "[method]future-incoming-response.get"
    (func (param "self" (borrow $future))
      (result (option (result (result (own $response) (error $error-code)))))))
  (export "[method]incoming-response.consume"
    (func (param "self" (borrow $response)) (result (result (own $body)))))
  (export "[method]incoming-body.stream"
    (func (param "self" (borrow $body)) (result (result (own $input-stream)))))))
(alias export $http "outgoing-request" (type $request))
(alias export $http "future-incoming-response" (type $future))
(alias export $http "error-code" (type $error-code))
(alias export $http "request-options" (type $options))
(import "wasi:http/outgoing-handler@0.2.12" (instance $handler
  (alias outer 1 $request (type $r))
  (export "outgoing-request" (type $request (eq $r)))
  (alias outer 1 $future (type $f))
  (export "future-incoming-response" (type $future (eq $f)))
  (alias outer 1 $error-code (type $c))
  (export "error-code" (type $code (eq $c)))
  (alias outer 1 $options (type $o))
  (export "request-options" (type $options (eq $o)))
  (export "handle" (func (param "request" (own $request)) (param "options" (option (own $options)))
    (result (result (own $future) (error $code)))))))
"#;

const WITH: &str = r#"
(with "wasi:io/error@0.2.12" (instance $io-error))
(with "wasi:io/poll@0.2.12" (instance $poll))
(with "wasi:io/streams@0.2.12" (instance $streams))
(with "wasi:http/types@0.2.12" (instance $http))
(with "wasi:http/outgoing-handler@0.2.12" (instance $handler))
"#;

/// The name in the guest, the instance, the function, and its type in core WebAssembly.
const FUNCTIONS: [(&str, &str, &str, &str); 13] = [
    ("block", "poll", "[method]pollable.block", "(param i32)"),
    ("read", "streams", "[method]input-stream.blocking-read", "(param i32 i64 i32)"),
    ("fields", "http", "[constructor]fields", "(result i32)"),
    ("append", "http", "[method]fields.append", "(param i32 i32 i32 i32 i32 i32)"),
    ("request", "http", "[constructor]outgoing-request", "(param i32) (result i32)"),
    (
        "set_scheme",
        "http",
        "[method]outgoing-request.set-scheme",
        "(param i32 i32 i32 i32 i32) (result i32)",
    ),
    (
        "set_authority",
        "http",
        "[method]outgoing-request.set-authority",
        "(param i32 i32 i32 i32) (result i32)",
    ),
    (
        "set_path",
        "http",
        "[method]outgoing-request.set-path-with-query",
        "(param i32 i32 i32 i32) (result i32)",
    ),
    ("subscribe", "http", "[method]future-incoming-response.subscribe", "(param i32) (result i32)"),
    ("get", "http", "[method]future-incoming-response.get", "(param i32 i32)"),
    ("consume", "http", "[method]incoming-response.consume", "(param i32 i32)"),
    ("stream", "http", "[method]incoming-body.stream", "(param i32 i32)"),
    ("handle", "handler", "handle", "(param i32 i32 i32 i32)"),
];

/// Requests, and the environment, where the secrets are.
pub(super) fn parts() -> Parts {
    let environment = Parts::environment();
    let lowered = FUNCTIONS.into_iter().map(|(name, instance, function, _)| {
        format!("(core func ${name} (canon lower (func ${instance} \"{function}\") (memory $memory) (realloc $realloc)))\n")
    });
    let core_imports = FUNCTIONS.into_iter().map(|(name, _, _, signature)| {
        format!("(import \"host\" \"{name}\" (func ${name} {signature}))\n")
    });
    let exports: String = FUNCTIONS
        .into_iter()
        .map(|(name, ..)| name)
        .chain(["environment", "arguments"])
        .map(|name| format!("(export \"{name}\" (func ${name}))"))
        .collect();
    Parts {
        imports: environment.imports + IMPORTS,
        with: environment.with + WITH,
        lowered: environment.lowered + &lowered.collect::<String>(),
        core_imports: environment.core_imports + &core_imports.collect::<String>(),
        core_with: format!("(with \"host\" (instance {exports}))"),
    }
}
