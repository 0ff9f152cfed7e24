//! `kind: Provider`: a language model endpoint. Checked here; used by no part of this version.

use super::node::Node;
use super::problem::{Problems, Source};
use super::shape::{COUNT, FLAG, NUMBER, POSITIVE, Shape, TEXT, opt, req};

pub(crate) const BACKOFF: Shape = Shape::OneOf(&["exponential", "linear", "constant"]);

const AUTH: Shape = Shape::Record(&[
    req("type", &Shape::OneOf(&["bearer", "api-key-header", "oauth2", "none"])),
    opt("secret_ref", &TEXT),
]);

const LIMITS: Shape = Shape::Record(&[
    opt("tokens_per_day", &COUNT),
    opt("tokens_per_request", &COUNT),
    opt("requests_per_minute", &COUNT),
    opt("max_context_window", &COUNT),
]);

const HINTS: Shape = Shape::Record(&[
    opt("cost_priority", &NUMBER),
    opt("speed_priority", &NUMBER),
    opt("intelligence_priority", &NUMBER),
]);

const RETRY: Shape = Shape::Record(&[
    opt("max_attempts", &POSITIVE),
    opt("backoff", &BACKOFF),
    opt("initial_delay_ms", &COUNT),
]);

pub(crate) const SPEC: Shape = Shape::Record(&[
    req("protocol", &Shape::OneOf(&["openai-compatible", "anthropic-native", "custom"])),
    req("endpoint", &TEXT),
    req("model", &TEXT),
    req("auth", &AUTH),
    opt("streaming", &FLAG),
    opt("hints", &HINTS),
    opt("fallback", &Shape::List { of: &Shape::Record(&[req("provider_ref", &TEXT)]), min: 0 }),
    opt("limits", &LIMITS),
    opt("retry", &RETRY),
    opt(
        "capabilities",
        &Shape::List {
            of: &Shape::OneOf(&["text", "image", "audio", "video", "realtime"]),
            min: 0,
        },
    ),
    opt("transport", &Shape::OneOf(&["http", "websocket", "webrtc", "grpc"])),
]);

/// Checks what the shape cannot say: a key is needed unless nothing is to be authenticated.
pub(crate) fn check(source: &Source, spec: &Node, problems: &mut Problems) {
    let Some(auth) = spec.entry("auth") else {
        return;
    };
    let kind = auth.node.text(&["type"]).unwrap_or_default();
    if kind != "none" && auth.node.entry("secret_ref").is_none() {
        problems.invalid(
            source,
            auth.node.at,
            "`spec.auth.secret_ref` is missing",
            format!("`type: {kind}` needs the name of a secret; `type: none` needs none"),
        );
    }
}
