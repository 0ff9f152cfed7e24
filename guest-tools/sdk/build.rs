//! Says whether Rust's own heap grows the memory for its first byte, as it did before Rust 1.97.

use std::env;
use std::process::Command;

/// From this version on Rust's own heap begins with the room that a memory has from the start.
const BEGINS_WITH_ROOM: (u32, u32) = (1, 97);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(std_grows_first)");
    // Where the version is not known, Rust's own heap is never wrong.
    if version().is_some_and(|version| version < BEGINS_WITH_ROOM) {
        println!("cargo::rustc-cfg=std_grows_first");
    }
}

/// Returns the 1 and the 95 of `rustc 1.95.0 (…)`.
fn version() -> Option<(u32, u32)> {
    let said = Command::new(env::var_os("RUSTC")?).arg("--version").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let mut numbers = said.strip_prefix("rustc ")?.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}
