//! What a file is, and whether it is small enough to compile. Nothing here runs any of it.
//!
//! Compiling cannot be interrupted, so its work is bounded first: bytes, functions, types,
//! nesting. A file is read for what it is, not by its name.

use clawhost_core::limits::{
    COMPONENT_BYTES_MAX, COMPONENT_FUNCTION_BYTES_MAX, COMPONENT_FUNCTIONS_MAX,
    COMPONENT_NESTING_MAX, COMPONENT_TYPES_MAX,
};
use wasmparser::{Encoding, Parser, Payload};

const WASM_MAGIC: &[u8] = b"\0asm";

/// Returns the binary of `bytes`, which are a component in binary or in text form.
///
/// # Errors
/// A sentence that says why this is no component that may be compiled.
pub(super) fn component(bytes: &[u8]) -> Result<Vec<u8>, String> {
    bound("the file", bytes.len() as u64, COMPONENT_BYTES_MAX, "bytes")?;
    let binary = if bytes.starts_with(WASM_MAGIC) {
        bytes.to_vec()
    } else {
        text(bytes)?
    };
    bound("the component", binary.len() as u64, COMPONENT_BYTES_MAX, "bytes")?;
    walk(&binary)?;
    Ok(binary)
}

fn text(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    let is_text = std::str::from_utf8(bytes).is_ok_and(|text| text.contains("(component"));
    if !is_text {
        return Err("the file is neither a WebAssembly binary nor a component in text form".to_owned());
    }
    wat::parse_bytes(bytes)
        .map(std::borrow::Cow::into_owned)
        .map_err(|error| format!("the text form does not parse: {error}"))
}

/// Reads the structure once; refuses core modules, truncation, and what exceeds a bound.
fn walk(binary: &[u8]) -> Result<(), String> {
    let (mut functions, mut types, mut nested) = (0u64, 0u64, 0u64);
    let mut outermost = true;
    for payload in Parser::new(0).parse_all(binary) {
        match payload.map_err(|error| format!("the file is damaged or truncated: {error}"))? {
            Payload::Version { encoding: Encoding::Module, .. } if outermost => {
                return Err("the file is a core module, not a component; make it one with `wasm-tools component new`".to_owned());
            }
            Payload::Version { .. } => outermost = false,
            Payload::CodeSectionEntry(body) => {
                let size = (body.range().end - body.range().start) as u64;
                bound("one function", size, COMPONENT_FUNCTION_BYTES_MAX, "bytes")?;
            }
            Payload::CodeSectionStart { count, .. } => functions += u64::from(count),
            Payload::TypeSection(section) => types += u64::from(section.count()),
            Payload::ComponentTypeSection(section) => types += u64::from(section.count()),
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => nested += 1,
            Payload::UnknownSection { id, .. } => return Err(format!("the file has an unknown section {id}")),
            _ => {}
        }
        bound("the component", functions, COMPONENT_FUNCTIONS_MAX, "functions")?;
        bound("the component", types, COMPONENT_TYPES_MAX, "types")?;
        bound("the component", nested, COMPONENT_NESTING_MAX, "nested modules and components")?;
    }
    Ok(())
}

fn bound(what: &str, value: u64, max: u64, unit: &str) -> Result<(), String> {
    if value > max {
        return Err(format!("{what} has {value} {unit}; at most {max} are compiled"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_component_is_refused_with_its_reason() {
        for (bytes, reason) in [
            (&b""[..], "empty"),
            (b"\x7fELF\x02", "neither"),
            (b"\0asm\x01\0\0\0", "core module"),
            (b"\0asm", "damaged or truncated"),
            (b"\0asm\x0d\0\x01\0\x07\xff", "damaged or truncated"),
            (b"(component (nonsense))", "does not parse"),
            (b"hello", "neither"),
        ] {
            let error = component(bytes).unwrap_err();
            assert!(error.contains(reason), "{bytes:?}: {error}");
        }
    }

    #[test]
    fn a_component_in_text_form_is_assembled() {
        assert!(component(b"(component)").unwrap().starts_with(WASM_MAGIC));
    }

    #[test]
    fn too_many_functions_are_refused_before_compiling() {
        let functions = "(func)".repeat(usize::try_from(COMPONENT_FUNCTIONS_MAX).unwrap() + 1);
        let error = component(format!("(component (core module {functions}))").as_bytes()).unwrap_err();
        assert!(error.contains("functions"), "{error}");
    }
}
