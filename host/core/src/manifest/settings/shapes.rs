//! The closed tables of the runtime file, and the bounds of its numbers.

use super::audit::AUDIT;
use super::providers::PROVIDERS;
use super::registries::REGISTRIES;
use super::secrets::SECRETS;
use crate::limits::{
    ARGUMENTS_BYTES_MAX, CALLS_RUNNING_MAX, CALLS_WAITING_MAX, REPLY_BYTES_MAX, SHUTDOWN_GRACE_MS,
};
use crate::manifest::shape::{FLAG, POSITIVE, STRING, STRINGS, Shape, TEXT, opt, req};

const LATER: Shape = Shape::Later { help: "take it out" };

const TOOLS: Shape = Shape::Record(&[
    opt("directory", &TEXT),
    opt("replace_builtins", &STRINGS),
    opt("exec", &LATER),
    opt("http_get", &LATER),
    opt("mcp_servers", &LATER),
    opt("web_search", &LATER),
]);

const LIMITS: Shape = Shape::Record(&[
    opt("arguments_bytes_max", &POSITIVE),
    opt("calls_running_max", &POSITIVE),
    opt("calls_waiting_max", &POSITIVE),
    opt("reply_bytes_max", &POSITIVE),
    opt("shutdown_grace_ms", &POSITIVE),
]);

const HTTP: Shape = Shape::Record(&[
    opt("address", &TEXT),
    opt("allowed_hosts", &STRINGS),
    opt("allowed_origins", &STRINGS),
]);

const PROFILE: Shape = Shape::Record(&[
    opt("env", &Shape::Dict(&STRING)),
    opt("ports", &Shape::List { of: &POSITIVE, min: 1 }),
    opt("provider", &FLAG),
    opt("fuel_per_ms", &LATER),
    opt("oversize", &LATER),
    opt("record", &LATER),
    opt("secrets", &SECRETS),
    opt("signature", &LATER),
]);

const PROFILES: Shape = Shape::Dict(&PROFILE);

const AGENT: Shape =
    Shape::Record(&[req("name", &TEXT), opt("elicitation", &FLAG), opt("identity", &TEXT)]);

const AGENTS: Shape = Shape::List { of: &AGENT, min: 0 };

pub(super) const FILE: Shape = Shape::Record(&[
    req("version", &POSITIVE),
    opt("agents", &AGENTS),
    opt("audit", &AUDIT),
    opt("http", &HTTP),
    opt("limits", &LIMITS),
    opt("profiles", &PROFILES),
    opt("registries", &REGISTRIES),
    opt("providers", &PROVIDERS),
    opt("state", &TEXT),
    opt("tools", &TOOLS),
    opt("composites", &LATER),
    opt("contracts", &LATER),
    opt("immune", &LATER),
    opt("registry", &LATER),
    opt("store", &LATER),
]);

/// The version of the runtime file's format.
pub(super) const FILE_VERSION: u64 = 1;

/// The most each bound may be set to, and its default.
pub(super) const BOUNDS: [(&str, u64, u64); 5] = [
    ("arguments_bytes_max", ARGUMENTS_BYTES_MAX as u64, ARGUMENTS_BYTES_MAX as u64),
    ("calls_running_max", 1_000, CALLS_RUNNING_MAX as u64),
    ("calls_waiting_max", 100_000, CALLS_WAITING_MAX as u64),
    ("reply_bytes_max", REPLY_BYTES_MAX as u64, REPLY_BYTES_MAX as u64),
    ("shutdown_grace_ms", 600_000, SHUTDOWN_GRACE_MS),
];
