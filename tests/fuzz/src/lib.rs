//! What the fuzz targets try: each module takes any bytes and panics where a promise is broken.
//!
//! The targets in `fuzz_targets` hand libFuzzer's bytes to them; `tests/it/fuzz.rs` includes the same
//! files and tries each with damaged seeds, bounded, on every toolchain.

#[cfg(feature = "host")]
pub mod components;
pub mod egress;
#[cfg(feature = "host")]
pub mod host_calls;
pub mod input;
#[cfg(feature = "host")]
mod interpreter;
pub mod json;
pub mod manifest;
#[cfg(feature = "host")]
pub mod messages;
pub mod policy;
pub mod redact;
pub mod shell;
#[cfg(feature = "host")]
pub mod upstream;
pub mod uri;
#[cfg(feature = "host")]
mod world;
