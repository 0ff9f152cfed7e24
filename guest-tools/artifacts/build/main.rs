//! Builds the built-in tools and writes down their bytes and digests.
//!
//! A nested cargo compiles `guest-tools/` for WebAssembly into a target folder of its own
//! below `OUT_DIR`; nothing is written anywhere else, except the standard library's cache
//! where one has to be built. Cargo hides what a build script prints, so progress of anything
//! slow goes to the terminal.

mod clean;
mod nested;
mod std_lib;
mod tell;

use std::path::{Path, PathBuf};
use std::{env, fs};

use sha2::{Digest, Sha256};

/// The target every guest is built for.
const TARGET: &str = "wasm32-unknown-unknown";

/// Each built-in component: its folder below `guest-tools/`; its package is `claw-` and that.
const BUILT_IN: [&str; 10] = [
    "file-io", "exec", "web-fetch", "memory", "calculator", "key-value", "models", "message",
    "sim", "shell",
];

/// Those that are built with the feature `interpreters`, likewise.
const INTERPRETERS: [&str; 3] = ["js", "python", "code"];

/// What they are made of beside their own folders, relative to `guest-tools/`.
const SHARED: [&str; 9] = [
    "Cargo.toml", "Cargo.lock", ".cargo/config.toml", "sdk", "macros", "script", "interpreters",
    "shims", "../wit",
];

fn main() {
    if let Err(why) = build() {
        for line in why.lines() {
            println!("cargo::error={line}");
        }
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(variable("OUT_DIR")?);
    let guests = here.parent().ok_or("this package has no parent folder")?;
    watch(guests);
    let std_lib = std_lib::find(&here)?;
    let packages: Vec<_> = built_in().map(|name| format!("claw-{name}")).collect();
    let target_dir = out.join("guests");
    nested::build(guests, &target_dir, &packages, std_lib.as_deref())?;
    write(&out, &target_dir)
}

fn built_in() -> impl Iterator<Item = &'static str> {
    let are_wanted = env::var_os("CARGO_FEATURE_INTERPRETERS").is_some();
    BUILT_IN.into_iter().chain(INTERPRETERS.into_iter().filter(move |_| are_wanted))
}

/// Runs this script again when a source changes, and at no other time.
fn watch(guests: &Path) {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=wasm-sysroot.sh");
    for source in SHARED.iter().chain(&BUILT_IN).chain(&INTERPRETERS) {
        println!("cargo::rerun-if-changed={}", guests.join(source).display());
    }
}

/// Copies each component to a stable name and writes the table that `lib.rs` includes.
fn write(out: &Path, target_dir: &Path) -> Result<(), String> {
    let mut table = String::from("&[\n");
    for name in built_in() {
        let file = format!("claw_{}.wasm", name.replace('-', "_"));
        let built = target_dir.join(TARGET).join("release").join(file);
        let bytes = fs::read(&built).map_err(|e| format!("{}: {e}", built.display()))?;
        let kept = out.join(format!("{name}.wasm"));
        fs::write(&kept, &bytes).map_err(|e| format!("{}: {e}", kept.display()))?;
        let path = kept.to_str().ok_or("the target folder's name is not UTF-8")?;
        let digest = hex(&Sha256::digest(&bytes));
        table.push_str(&format!(
            "    Artifact {{ name: {name:?}, bytes: include_bytes!({path:?}), digest: \"sha256:{digest}\" }},\n"
        ));
    }
    table.push(']');
    let file = out.join("built_in.rs");
    fs::write(&file, table).map_err(|e| format!("{}: {e}", file.display()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("cargo did not set {name}"))
}
