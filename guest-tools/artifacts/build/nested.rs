//! The cargo inside cargo.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::TARGET;
use crate::clean;

/// Builds `packages` of the workspace `guests` into `target_dir`.
pub(crate) fn build(
    guests: &Path,
    target_dir: &Path,
    packages: &[String],
    sysroot: Option<&Path>,
) -> Result<(), String> {
    let mut cargo = clean::cargo();
    cargo.current_dir(guests).args(["build", "--release", "--locked", "--target", TARGET]);
    cargo.arg("--target-dir").arg(target_dir);
    for package in packages {
        cargo.args(["--package", package]);
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags(guests, sysroot)?);
    let status = cargo.status().map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err("the built-in tools did not compile; the compiler's words are above".to_owned())
}

/// The compiler's flags: where std is, and no folder of this machine in the result.
fn flags(guests: &Path, sysroot: Option<&Path>) -> Result<OsString, String> {
    // Of random numbers and of room for the heap; see `.cargo/config.toml`, which these flags replace.
    let mut flags = vec![
        "--cfg".into(),
        "getrandom_backend=\"custom\"".into(),
        "-Clink-arg=--initial-heap=262144".into(),
    ];
    if let Some(sysroot) = sysroot {
        flags.push(joined("--sysroot=", sysroot, ""));
    }
    if let Some(home) = cargo_home() {
        flags.push(joined("--remap-path-prefix=", &home, "=/cargo"));
    }
    let root = fs::canonicalize(guests).map_err(|e| format!("{}: {e}", guests.display()))?;
    flags.push(joined("--remap-path-prefix=", &root, "=/guest-tools"));
    Ok(flags.join(&OsString::from("\u{1f}")))
}

fn joined(before: &str, path: &Path, after: &str) -> OsString {
    let mut flag = OsString::from(before);
    flag.push(path);
    flag.push(after);
    flag
}

fn cargo_home() -> Option<PathBuf> {
    let home = || env::home_dir().map(|home| home.join(".cargo"));
    env::var_os("CARGO_HOME").map(Into::into).or_else(home)
}
