//! Where the guests' standard library comes from: the toolchain, rustup, or its sources.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::TARGET;
use crate::tell::progress;

/// Makes std available, and returns the sysroot to use where it is not the toolchain's own.
pub(crate) fn find(here: &Path) -> Result<Option<PathBuf>, String> {
    if toolchain_has_it() || rustup_added_it() {
        return Ok(None);
    }
    from_sources(here).map(Some).map_err(|why| instructions(&why))
}

fn toolchain_has_it() -> bool {
    let Some(folder) = rustc(&["--print", "target-libdir", "--target", TARGET]) else {
        return false;
    };
    let Ok(entries) = fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libcore-"))
}

/// Asks rustup, where it is there and may install.
fn rustup_added_it() -> bool {
    if env::var_os("RUSTUP_AUTO_INSTALL").is_some_and(|value| value == "0") {
        return false;
    }
    let is_there = Command::new("rustup").arg("--version").output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        return false;
    }
    progress(&format!("the guests' standard library: rustup target add {TARGET}"));
    let added = Command::new("rustup").args(["target", "add", TARGET]).status();
    added.is_ok_and(|status| status.success()) && toolchain_has_it()
}

/// Builds std once into the user's cache, or finds the one built before.
fn from_sources(here: &Path) -> Result<PathBuf, String> {
    let mut script = Command::new("bash");
    script.arg(here.join("wasm-sysroot.sh")).env("CLAWHOST_WASM_TARGETS", TARGET);
    for name in ["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "MAKEFLAGS", "CARGO_MAKEFLAGS"] {
        script.env_remove(name);
    }
    let mut child = script
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("bash cannot be started: {error}"))?;
    let said = child.stderr.take().map(pass_on).unwrap_or_default();
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(said);
    }
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if path.join("lib/rustlib").join(TARGET).is_dir() {
        return Ok(path);
    }
    Err(format!("{} does not hold the standard library", path.display()))
}

/// Shows each line as it comes, and returns the last few.
fn pass_on(stderr: impl std::io::Read) -> String {
    let mut last = Vec::new();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        progress(&line);
        last.push(line);
        if last.len() > 12 {
            last.remove(0);
        }
    }
    last.join("\n")
}

fn rustc(arguments: &[&str]) -> Option<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn instructions(why: &str) -> String {
    format!(
        "the built-in tools need Rust's standard library for {TARGET}, and it is not there.\n\
         What to do, best first:\n\
         1. With rustup:  rustup target add {TARGET}\n\
         2. Without rustup: install your distribution's package of that target, if it has one\n   \
            for exactly this rustc.\n\
         3. On Debian: make the package rust-src of this rustc's version available to apt\n   \
            (trixie-backports), then build again: it is compiled once, in about a minute.\n\
         What was tried last:\n{why}"
    )
}
