//! What a file is, and whether it is small enough to compile. Nothing here runs any of it.
//!
//! Compiling cannot be interrupted, so its work is bounded first: bytes, functions, types,
//! nesting. A file is read for what it is, not by its name.

use clawhost_core::limits::{
    COMPONENT_BLOCK_DEPTH_MAX, COMPONENT_BYTES_MAX, COMPONENT_FUNCTION_BYTES_MAX,
    COMPONENT_FUNCTIONS_MAX, COMPONENT_NESTING_MAX, COMPONENT_TYPES_MAX, COMPONENT_WORK_MAX,
};
use clawhost_core::{imports, truncate};
use wasmparser::{BinaryReaderError, Encoding, FunctionBody, Operator, Parser, Payload};

const WASM_MAGIC: &[u8] = b"\0asm";
/// The export that makes a component a tool, up to its patch version.
const TOOL_EXPORT: &str = "claw:tool/tool@0.1.";
/// The part of a parser's message that is shown: it may quote the file.
const REASON_BYTES_MAX: usize = 1_024;

/// Returns the binary of `bytes`, which are a component in binary or in text form.
///
/// # Errors
/// A sentence that says why this is no component that may be compiled.
pub(super) fn component(bytes: &[u8]) -> Result<Vec<u8>, String> {
    bound("the file", bytes.len() as u64, COMPONENT_BYTES_MAX, "bytes")?;
    let binary = if bytes.starts_with(WASM_MAGIC) { bytes.to_vec() } else { text(bytes)? };
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
        return Err(
            "the file is neither a WebAssembly binary nor a component in text form".to_owned()
        );
    }
    wat::parse_bytes(bytes).map(std::borrow::Cow::into_owned).map_err(|error| {
        let text = error.to_string();
        format!("the text form does not parse: {}", truncate::text(&text, REASON_BYTES_MAX))
    })
}

/// Reads the structure once; refuses core modules, truncation, what exceeds a bound, another
/// world, and imports that no profile grants.
fn walk(binary: &[u8]) -> Result<(), String> {
    let mut shape = Shape::default();
    for payload in Parser::new(0).parse_all(binary) {
        shape.take(payload.map_err(|error| damaged(&error))?)?;
    }
    imports::servable(shape.imports.iter().copied()).map_err(|reasons| reasons.join("; "))?;
    if shape.exports.iter().any(|name| name.starts_with(TOOL_EXPORT)) {
        return Ok(());
    }
    Err(format!(
        "it is of another world: a tool exports `{TOOL_EXPORT}0`, this exports {:?}",
        shape.exports
    ))
}

/// What was seen of a component so far.
#[derive(Default)]
struct Shape<'a> {
    started: bool,
    depth: usize,
    functions: u64,
    types: u64,
    nested: u64,
    work: u64,
    imports: Vec<&'a str>,
    exports: Vec<&'a str>,
}

impl<'a> Shape<'a> {
    fn take(&mut self, payload: Payload<'a>) -> Result<(), String> {
        match payload {
            Payload::Version { encoding: Encoding::Module, .. } if !self.started => {
                return Err("the file is a core module, not a component; make it one with `wasm-tools component new`".to_owned());
            }
            Payload::Version { .. } => self.started = true,
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                self.nested += 1;
                self.depth += 1;
            }
            Payload::End(_) => self.depth = self.depth.saturating_sub(1),
            Payload::CodeSectionEntry(body) => self.function(&body)?,
            Payload::CodeSectionStart { count, .. } => self.functions += u64::from(count),
            Payload::TypeSection(section) => self.types += u64::from(section.count()),
            Payload::ComponentTypeSection(section) => self.types += u64::from(section.count()),
            Payload::ComponentImportSection(section) if self.depth == 0 => {
                for import in section {
                    self.imports.push(import.map_err(|error| damaged(&error))?.name.name);
                }
            }
            Payload::ComponentExportSection(section) if self.depth == 0 => {
                for export in section {
                    self.exports.push(export.map_err(|error| damaged(&error))?.name.name);
                }
            }
            Payload::UnknownSection { id, .. } => {
                return Err(format!("the file has an unknown section {id}"));
            }
            _ => {}
        }
        bound("the component", self.functions, COMPONENT_FUNCTIONS_MAX, "functions")?;
        bound("the component", self.types, COMPONENT_TYPES_MAX, "types")?;
        bound(
            "the component",
            self.nested,
            COMPONENT_NESTING_MAX,
            "nested modules and components",
        )?;
        bound(
            "the component",
            self.work,
            COMPONENT_WORK_MAX,
            "locals times blocks, over its functions",
        )
    }

    /// Bounds what makes compiling one function slow: its size, how deep its blocks are nested,
    /// and its locals times its blocks.
    fn function(&mut self, body: &FunctionBody<'_>) -> Result<(), String> {
        let size = (body.range().end - body.range().start) as u64;
        bound("one function", size, COMPONENT_FUNCTION_BYTES_MAX, "bytes")?;
        let mut locals = 0u64;
        for local in body.get_locals_reader().map_err(|error| damaged(&error))? {
            locals += u64::from(local.map_err(|error| damaged(&error))?.0);
        }
        let (mut depth, mut blocks) = (0u64, 0u64);
        for operator in body.get_operators_reader().map_err(|error| damaged(&error))? {
            match operator.map_err(|error| damaged(&error))? {
                Operator::Block { .. }
                | Operator::Loop { .. }
                | Operator::If { .. }
                | Operator::TryTable { .. } => {
                    depth += 1;
                    blocks += 1;
                    bound("one function", depth, COMPONENT_BLOCK_DEPTH_MAX, "nested blocks")?;
                }
                Operator::End => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        self.work = self.work.saturating_add(locals.saturating_mul(blocks));
        Ok(())
    }
}

fn damaged(error: &BinaryReaderError) -> String {
    format!("the file is damaged or truncated: {error}")
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
    fn a_component_of_another_world_is_refused_before_it_is_compiled() {
        let error = component(b"(component)").unwrap_err();
        assert!(error.contains("another world"), "{error}");
        let sockets = br#"(component (import "wasi:sockets/tcp@0.2.0" (instance)))"#;
        assert!(component(sockets).unwrap_err().contains("wasi:sockets/tcp"));
    }

    #[test]
    fn functions_that_compile_for_minutes_are_refused() {
        let nest = format!(
            "(component (core module (func {} {})))",
            "block ".repeat(6_000),
            "end ".repeat(6_000)
        );
        assert!(component(nest.as_bytes()).unwrap_err().contains("nested blocks"));
        let locals = format!(
            "(component (core module (func (local {}) {})))",
            "i32 ".repeat(40_000),
            "block end ".repeat(20_000)
        );
        assert!(component(locals.as_bytes()).unwrap_err().contains("locals times blocks"));
    }

    #[test]
    fn too_many_functions_are_refused_before_compiling() {
        let functions = "(func)".repeat(usize::try_from(COMPONENT_FUNCTIONS_MAX).unwrap() + 1);
        let error =
            component(format!("(component (core module {functions}))").as_bytes()).unwrap_err();
        assert!(error.contains("functions"), "{error}");
    }
}
