//! A cargo that knows nothing of the build or test that calls it.

use std::env;
use std::process::Command;

/// Variables of the outer build that would change what the inner one makes. The jobserver's
/// are among them: the outer cargo waits for this script, so the inner one may use all cores.
const CLEANED: [&str; 12] = [
    "RUSTFLAGS", "RUSTDOCFLAGS", "RUSTC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER",
    "CLIPPY_ARGS", "CLIPPY_CONF_DIR", "MAKEFLAGS", "MFLAGS", "__CARGO_DEFAULT_LIB_METADATA",
    "LLVM_PROFILE_FILE", "MIRIFLAGS",
];

/// Of cargo's own variables, those that say where things are rather than how to build.
const KEPT: [&str; 7] = [
    "CARGO_HOME", "CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTR", "CARGO_SOURCE_", "CARGO_RESOLVER_",
    "CARGO_TERM_",
];

/// A cargo of the same toolchain, free of the outer build's settings.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_of_the_outer_build) {
            cargo.env_remove(name);
        }
    }
    cargo
}

fn is_of_the_outer_build(name: &str) -> bool {
    let kept = KEPT.iter().any(|prefix| name.starts_with(prefix));
    CLEANED.contains(&name) || (name.starts_with("CARGO_") && !kept)
}
