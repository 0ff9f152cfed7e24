//! What a registry is told of a component: whether it is one, and its imports and exports.

use clawhost_core::package::artifact::Outline;
use wasmparser::{Encoding, Parser, Payload};

/// Reads the outermost structure of a binary; nothing of it is validated.
///
/// # Errors
/// It is no WebAssembly.
pub(crate) fn outline(bytes: &[u8]) -> Result<Outline, String> {
    if !bytes.starts_with(b"\0asm") {
        return Err("it is no WebAssembly in binary form".to_owned());
    }
    let mut outline = Outline::default();
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(|error| format!("it is no WebAssembly: {error}"))?;
        match payload {
            Payload::Version { encoding, .. } => {
                outline.is_component |= depth == 0 && encoding == Encoding::Component;
                depth += 1;
            }
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 1 => {
                let names = section.into_iter().flatten();
                outline.imports.extend(names.map(|import| import.name.name.to_owned()));
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                let names = section.into_iter().flatten();
                outline.exports.extend(names.map(|export| export.name.name.to_owned()));
            }
            _ => {}
        }
    }
    Ok(outline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_outermost_names_count() {
        let text = r#"(component
            (import "a:b/c@1.0.0" (instance))
            (component (import "inner" (func)) (export "inner-too" (func 0)))
            (core module (import "core" "f" (func)))
            (instance $i)
            (export "x:y/z@2.0.0" (instance $i)))"#;
        let outline = outline(&wat::parse_str(text).unwrap()).unwrap();
        assert!(outline.is_component);
        assert_eq!(
            (outline.imports, outline.exports),
            (vec!["a:b/c@1.0.0".to_owned()], vec!["x:y/z@2.0.0".to_owned()])
        );
        assert!(!super::outline(&wat::parse_str("(module)").unwrap()).unwrap().is_component);
    }

    #[test]
    fn what_is_none_is_refused() {
        for bytes in [&b""[..], b"\0asm", b"(module)", b"\0asm\x01\0\0\0\x05"] {
            assert!(outline(bytes).is_err(), "{bytes:?}");
        }
    }
}
