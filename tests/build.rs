//! Says whether PostgreSQL is on this machine: its tests are counted as ignored where it is not.
#![expect(clippy::disallowed_methods, reason = "a build script is told by its environment")]

fn main() {
    println!("cargo::rustc-check-cfg=cfg(postgres)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PATH");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_here =
        |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if ["initdb", "postgres"].into_iter().all(is_here) {
        println!("cargo::rustc-cfg=postgres");
    }
}
