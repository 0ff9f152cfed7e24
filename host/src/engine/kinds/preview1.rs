//! Core modules for the first version of WASI: a program of that kind is made a component with
//! the published adapter, and is a command from there on.
//!
//! Deliberately absent: reactors, and modules of any other world. They are refused with what would
//! be right.

use std::borrow::Cow;

use clawhost_core::truncate;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
};
use wasmparser::Validator;
use wit_component::ComponentEncoder;

/// Custom sections that say a module is one half of a component of another world.
const COMPONENT_TYPE: &str = "component-type";
/// The part of a reason that is shown: it may quote the module.
const REASON_BYTES_MAX: usize = 512;
const INSTEAD: &str = "make it a component with `wasm-tools component new`";

/// Says whether a custom section of this name makes a module one half of a component.
pub(crate) fn is_of_half(section: &str) -> bool {
    section.starts_with(COMPONENT_TYPE)
}

/// Says whether a core module that imports from these modules, exports these names and may be one
/// half of a component is a preview-1 command.
///
/// # Errors
/// Why it is not, and what would be right.
pub(crate) fn check<'a>(
    mut imports_from: impl Iterator<Item = &'a str>,
    exports: &[Cow<'_, str>],
    is_half: bool,
) -> Result<(), String> {
    let refuse = |why: &str| Err(format!("the file is a core module {why}; {INSTEAD}"));
    // The adapter's encoder would read such a section, which is not bounded.
    if is_half {
        return refuse("made for a world of components");
    }
    if let Some(name) = imports_from.find(|name| *name != WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME) {
        let name = truncate::text(name, REASON_BYTES_MAX);
        return refuse(&format!("that imports from {name:?}"));
    }
    let exports = |wanted: &str| exports.iter().any(|name| name == wanted);
    if exports("_start") && exports("memory") {
        return Ok(());
    }
    refuse("and no WASI program, which exports `_start` and `memory`")
}

/// Returns the hash of what is made around such a program.
pub(crate) fn adapter_hash() -> blake3::Hash {
    blake3::hash(WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER)
}

/// Returns the component around a preview-1 command, whose size was bounded before.
///
/// # Errors
/// A sentence: it is not valid, or does not fit the adapter.
pub(crate) fn component(module: &[u8]) -> Result<Vec<u8>, String> {
    let fail = |error: &dyn std::fmt::Display| {
        let error = error.to_string();
        format!("the preview-1 module is not sound: {}", truncate::text(&error, REASON_BYTES_MAX))
    };
    Validator::new().validate_all(module).map_err(|error| fail(&error))?;
    let adapter = WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER;
    ComponentEncoder::default()
        .module(module)
        .and_then(|encoder| encoder.adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, adapter))
        .and_then(|mut encoder| encoder.encode())
        .map_err(|error| fail(&format!("{error:#}")))
}
