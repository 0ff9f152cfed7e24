//! What a file is, and whether it is small enough to compile. Nothing here runs any of it.
//!
//! What compiling takes is bounded first by what it grows with: bytes, functions, types,
//! nesting. A file is read for what it is, not by its name.

use std::borrow::Cow;
use std::collections::BTreeSet;

use clawhost_core::limits::{
    COMPONENT_BLOCK_DEPTH_MAX, COMPONENT_BYTES_MAX, COMPONENT_FUNCTION_BYTES_MAX,
    COMPONENT_FUNCTIONS_MAX, COMPONENT_NAMES_MAX, COMPONENT_NESTING_MAX, COMPONENT_TEXT_BYTES_MAX,
    COMPONENT_TYPES_MAX, COMPONENT_WORK_MAX,
};
use clawhost_core::{digest, imports, truncate};
use wasmparser::{
    BinaryReaderError, CanonicalFunction, CanonicalOption, ComponentType, Encoding, FunctionBody,
    Operator, Parser, Payload,
};

use super::kinds::docs::{self, Docs};
use super::kinds::{check_exports, preview1};

const WASM_MAGIC: &[u8] = b"\0asm";
/// What is said of components of WASI 0.3 where this build does not have it.
const NO_P3: &str = "it is of WASI 0.3, which the engine calls incomplete: build clawhost with the feature `wasi-p3`, or the component for WASI 0.2";
/// The part of a parser's or compiler's message that is shown: it may quote the file.
pub(super) const REASON_BYTES_MAX: usize = 1_024;
/// Names of an [`Outline`] that are kept of each list: more is no table for people.
const OUTLINE_NAMES_MAX: usize = 200;
/// The part of each that is kept.
const OUTLINE_NAME_BYTES_MAX: usize = 256;

/// What a file is, read from its structure alone; there is one for a file that is refused too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outline {
    /// Whether it is a core module and no component.
    pub(crate) is_core: bool,
    /// `sha256:…` of the binary.
    pub(crate) digest: String,
    /// Its size in bytes, in binary form.
    pub(crate) size_bytes: usize,
    /// What it imports: the first of them, where there are very many. Names are cut, and not checked.
    pub(crate) imports: Vec<String>,
    /// What it exports, likewise.
    pub(crate) exports: Vec<String>,
}

/// Returns what `bytes` are, or none where they are too large, no WebAssembly, or damaged.
pub(crate) fn outline(bytes: &[u8]) -> Option<Outline> {
    let binary = binary(bytes).ok()?;
    let mut names = Names::default();
    for payload in Parser::new(0).parse_all(&binary) {
        names.take(&payload.ok()?).ok()?;
    }
    let kept = |list: &[Cow<'_, str>]| {
        let short = |name: &Cow<'_, str>| truncate::text(name, OUTLINE_NAME_BYTES_MAX).to_owned();
        list.iter().take(OUTLINE_NAMES_MAX).map(short).collect()
    };
    Some(Outline {
        is_core: names.is_core,
        digest: digest::of_bytes(&binary),
        size_bytes: binary.len(),
        imports: kept(&names.imports),
        exports: kept(&names.exports),
    })
}

/// A component that may be compiled, and what is known of the file that it comes from.
pub(super) struct Checked {
    /// The component in binary form.
    pub(super) binary: Vec<u8>,
    /// `sha256:…` of the file in binary form.
    pub(super) digest: String,
    /// The file's size in bytes, in binary form.
    pub(super) size_bytes: usize,
    /// What its author wrote about its functions.
    pub(super) docs: Docs,
    /// It is of WASI 0.3, or of its kind: functions that others run beside.
    pub(super) is_p3: bool,
}

/// Returns the component that `bytes` are, or that can be made of them: a component or a preview-1
/// module, in binary or in text form.
///
/// # Errors
/// A sentence that says why this is nothing that may be compiled.
pub(super) fn component(bytes: &[u8]) -> Result<Checked, String> {
    let file = binary(bytes)?;
    let (digest, size_bytes) = (digest::of_bytes(&file), file.len());
    let names = walk(&file)?;
    let (is_core, is_p3, docs) = (names.is_core, names.is_p3, names.docs);
    let binary = if is_core { wrapped(&file)? } else { file };
    Ok(Checked { binary, digest, size_bytes, docs, is_p3 })
}

fn wrapped(module: &[u8]) -> Result<Vec<u8>, String> {
    let component = preview1::component(module)?;
    bound("the component", component.len() as u64, COMPONENT_BYTES_MAX, "bytes")?;
    walk(&component)?;
    Ok(component)
}

/// Returns a file in binary form, as its digest is told.
///
/// # Errors
/// It is too large, as text too, or its text form does not parse.
pub(crate) fn binary(bytes: &[u8]) -> Result<Vec<u8>, String> {
    bound("the file", bytes.len() as u64, COMPONENT_BYTES_MAX, "bytes")?;
    let binary = if bytes.starts_with(WASM_MAGIC) { bytes.to_vec() } else { text(bytes)? };
    bound("the component", binary.len() as u64, COMPONENT_BYTES_MAX, "bytes")?;
    Ok(binary)
}

fn text(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    let is_start = |text: &str| text.contains("(component") || text.contains("(module");
    if !std::str::from_utf8(bytes).is_ok_and(is_start) {
        return Err(
            "the file is neither a WebAssembly binary nor a component in text form".to_owned()
        );
    }
    if bytes.len() > COMPONENT_TEXT_BYTES_MAX {
        return Err(format!(
            "the text form has {} bytes; at most {COMPONENT_TEXT_BYTES_MAX} are parsed: make it binary with `wasm-tools parse`",
            bytes.len()
        ));
    }
    wat::parse_bytes(bytes).map(Cow::into_owned).map_err(|error| unparsed(&error.to_string()))
}

/// Says what a parser said: what and where; then it draws the line.
fn unparsed(error: &str) -> String {
    let mut lines = error.lines();
    let what = truncate::text(lines.next().unwrap_or_default(), REASON_BYTES_MAX);
    let at = lines.next().and_then(|line| line.trim_start().strip_prefix("--> <anon>:"));
    let at = at.map(|at| format!(", at {at}")).unwrap_or_default();
    format!("the text form does not parse: {what}{at}")
}

/// Reads the structure once; refuses truncation, what exceeds a bound, a world that is not served,
/// and imports that no profile grants.
fn walk(binary: &[u8]) -> Result<Names<'_>, String> {
    let names = names(binary)?;
    if names.is_p3 && !cfg!(feature = "wasi-p3") {
        return Err(NO_P3.to_owned());
    }
    if names.is_core {
        let imports_from = names.imports_from.iter().copied();
        preview1::check(imports_from, &names.exports, names.is_half)?;
    } else {
        imports::servable(names.imports.iter().map(AsRef::as_ref))
            .map_err(|reasons| reasons.join("; "))?;
        check_exports(names.exports.iter().map(AsRef::as_ref))
            .map_err(|error| truncate::text(&error, REASON_BYTES_MAX).to_owned())?;
    }
    Ok(names)
}

fn names(binary: &[u8]) -> Result<Names<'_>, String> {
    let mut shape = Shape::default();
    for payload in Parser::new(0).parse_all(binary) {
        shape.take(payload.map_err(|error| damaged(&error))?)?;
    }
    Ok(shape.names)
}

/// What was read of a file's own imports and exports so far, not of what is nested in it.
#[derive(Default)]
struct Names<'a> {
    started: bool,
    is_core: bool,
    depth: usize,
    imports: Vec<Cow<'a, str>>,
    exports: Vec<Cow<'a, str>>,
    /// What a core module imports from.
    imports_from: BTreeSet<&'a str>,
    /// It says that it is one half of a component.
    is_half: bool,
    docs: Docs,
    is_p3: bool,
}

impl<'a> Names<'a> {
    fn take(&mut self, payload: &Payload<'a>) -> Result<(), String> {
        match payload {
            Payload::Version { encoding, .. } if !self.started => {
                self.started = true;
                self.is_core = *encoding == Encoding::Module;
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => self.depth += 1,
            Payload::End(_) => self.depth = self.depth.saturating_sub(1),
            _ if self.depth == 0 => self.take_names(payload).map_err(|error| damaged(&error))?,
            _ => {}
        }
        self.is_p3 |= is_async(payload).map_err(|error| damaged(&error))?;
        Ok(())
    }

    /// Keeps a name that the component itself imports or exports.
    fn note(&mut self, name: &'a str) -> Cow<'a, str> {
        self.is_p3 |= name.starts_with("wasi:") && name.contains("@0.3.");
        name.into()
    }

    /// How many more names are read: with one too many is known that there are.
    fn room(&self) -> usize {
        (COMPONENT_NAMES_MAX + 1).saturating_sub(self.count())
    }

    fn count(&self) -> usize {
        self.imports.len() + self.exports.len()
    }

    /// Refuses too many, without their number: those beyond the bound are not read.
    fn bound(&self) -> Result<(), String> {
        if self.count() > COMPONENT_NAMES_MAX {
            return Err(format!(
                "the component has more than {COMPONENT_NAMES_MAX} imports and exports"
            ));
        }
        Ok(())
    }

    fn take_names(&mut self, payload: &Payload<'a>) -> Result<(), BinaryReaderError> {
        match payload {
            Payload::ComponentImportSection(section) => {
                for import in section.clone().into_iter().take(self.room()) {
                    let name = self.note(import?.name.name);
                    self.imports.push(name);
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section.clone().into_iter().take(self.room()) {
                    let name = self.note(export?.name.name);
                    self.exports.push(name);
                }
            }
            Payload::CustomSection(section) => {
                self.is_half |= preview1::is_of_half(section.name());
                if section.name() == docs::SECTION {
                    self.docs = Docs::read(section.data());
                }
            }
            // Of a core module; a component has none at this depth.
            Payload::ImportSection(section) => {
                for import in section.clone().into_imports().take(self.room()) {
                    let import = import?;
                    self.imports_from.insert(import.module);
                    self.imports.push(format!("{}.{}", import.module, import.name).into());
                }
            }
            Payload::ExportSection(section) => {
                for export in section.clone().into_iter().take(self.room()) {
                    self.exports.push(export?.name.into());
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Says whether something of a component, nested or not, takes tasks that run beside each other.
fn is_async(payload: &Payload<'_>) -> Result<bool, BinaryReaderError> {
    let is_type = |ty: &ComponentType<'_>| matches!(ty, ComponentType::Func(ty) if ty.async_);
    let is_call = |call: &CanonicalFunction| match call {
        CanonicalFunction::Lift { options, .. } | CanonicalFunction::Lower { options, .. } => {
            options.contains(&CanonicalOption::Async)
        }
        CanonicalFunction::ResourceNew { .. }
        | CanonicalFunction::ResourceDrop { .. }
        | CanonicalFunction::ResourceRep { .. } => false,
        _ => true,
    };
    let any = |found: bool, more: Result<bool, BinaryReaderError>| Ok(found | more?);
    match payload {
        Payload::ComponentTypeSection(section) => {
            section.clone().into_iter().map(|ty| Ok(is_type(&ty?))).try_fold(false, any)
        }
        Payload::ComponentCanonicalSection(section) => {
            section.clone().into_iter().map(|call| Ok(is_call(&call?))).try_fold(false, any)
        }
        _ => Ok(false),
    }
}

/// What was seen of a component so far.
#[derive(Default)]
struct Shape<'a> {
    names: Names<'a>,
    functions: u64,
    types: u64,
    nested: u64,
    work: u64,
}

impl<'a> Shape<'a> {
    fn take(&mut self, payload: Payload<'a>) -> Result<(), String> {
        self.names.take(&payload)?;
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => self.nested += 1,
            Payload::CodeSectionEntry(body) => self.function(&body)?,
            Payload::CodeSectionStart { count, .. } => self.functions += u64::from(count),
            Payload::TypeSection(section) => self.types += u64::from(section.count()),
            Payload::ComponentTypeSection(section) => self.types += u64::from(section.count()),
            Payload::UnknownSection { id, .. } => {
                return Err(format!("the file has an unknown section {id}"));
            }
            _ => {}
        }
        self.names.bound()?;
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

    fn refusal(bytes: &[u8]) -> String {
        component(bytes).map(|checked| checked.digest).unwrap_err()
    }

    #[test]
    fn what_is_not_a_component_is_refused_with_its_reason() {
        for (bytes, reason) in [
            (&b""[..], "empty"),
            (b"\x7fELF\x02", "neither"),
            (b"\0asm\x01\0\0\0", "core module"),
            (b"\0asm", "damaged or truncated"),
            (b"\0asm\x0d\0\x01\0\x07\xff", "damaged or truncated"),
            (b"(component\n (nonsense))", "field, at 2:3"),
            (b"hello", "neither"),
        ] {
            let error = refusal(bytes);
            assert!(error.contains(reason), "{bytes:?}: {error}");
        }
    }

    #[test]
    fn a_long_text_form_is_not_parsed_and_the_same_component_in_binary_form_is_read() {
        let comment = ";".repeat(COMPONENT_TEXT_BYTES_MAX);
        let text = format!("(component (core module (func)))\n{comment}");
        let error = refusal(text.as_bytes());
        assert!(error.contains("make it binary"), "{error}");
        assert!(refusal(&wat::parse_str(&text).unwrap()).contains("another world"));
    }

    #[test]
    fn a_component_of_another_world_is_refused_before_it_is_compiled() {
        let error = refusal(b"(component)");
        assert!(error.contains("another world"), "{error}");
        let sockets = br#"(component (import "wasi:sockets/tcp@0.2.0" (instance)))"#;
        assert!(refusal(sockets).contains("wasi:sockets/tcp"));
    }

    #[test]
    fn what_takes_wasi_0_3_is_told_before_it_is_compiled() {
        for (text, is_p3) in [
            (r#"(import "wasi:clocks/system-clock@0.3.0" (instance))"#, true),
            (r#"(import "wasi:clocks/wall-clock@0.2.12" (instance))"#, false),
            ("(component (component (type (func async))))", true),
            ("(type (func))", false),
            ("(core func (canon waitable-set.new))", true),
            ("(type $r (resource (rep i32))) (core func (canon resource.new $r))", false),
        ] {
            let file = wat::parse_str(format!("(component {text})")).unwrap();
            assert_eq!(names(&file).unwrap().is_p3, is_p3, "{text}");
            let is_refused_for_it = is_p3 && !cfg!(feature = "wasi-p3");
            assert_eq!(refusal(&file) == NO_P3, is_refused_for_it, "{text}");
        }
    }

    #[test]
    fn only_programs_of_preview_1_are_core_modules_that_run() {
        const HEAD: &str =
            r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))"#;
        let program = format!(r#"{HEAD} (memory (export "memory") 1) (func (export "_start")))"#);
        let checked = component(program.as_bytes()).unwrap();
        assert!(checked.size_bytes < checked.binary.len());
        for (module, reason) in [
            (program.replace("_snapshot_preview1", "_unstable"), "imports from \"wasi_unstable\""),
            (program.replace("_start", "_initialize"), "no WASI program"),
            (program.replace("\"memory\"", "\"m\""), "no WASI program"),
            (program.replace("proc_exit", "proc_fork"), "not sound"),
            (program.replace("(param i32)", "(param i64)"), "not sound"),
            (
                program.replace("(module", "(module (@custom \"component-type:x\" \"\")"),
                "world of components",
            ),
        ] {
            let error = refusal(module.as_bytes());
            assert!(error.contains(reason), "{module}: {error}");
        }
    }

    #[test]
    fn what_is_refused_still_has_an_outline_unless_it_is_damaged() {
        let sockets = outline(
            br#"(component (import "wasi:sockets/tcp@0.2.0" (instance))
                (component (import "nested" (instance))))"#,
        )
        .unwrap();
        assert_eq!((sockets.is_core, sockets.exports.len()), (false, 0));
        assert_eq!(sockets.imports, ["wasi:sockets/tcp@0.2.0"]);
        let core =
            wat::parse_str(r#"(module (import "env" "log" (func)) (memory (export "memory") 1))"#);
        let core = outline(&core.unwrap()).unwrap();
        assert!(core.is_core && core.digest.starts_with("sha256:"), "{core:?}");
        assert_eq!(
            (core.imports, core.exports),
            (vec!["env.log".to_owned()], vec!["memory".to_owned()])
        );
        for bytes in [&b""[..], b"hello", b"\0asm", b"\0asm\x0d\0\x01\0\x07\xff"] {
            assert_eq!(outline(bytes), None);
        }
    }

    #[test]
    fn more_names_than_are_read_are_refused_and_an_outline_has_the_first_of_them() {
        let imports = |name: &str, count| {
            let import = format!(r#"(import "{name}" (func (type $f)))"#);
            let text = format!("(component (type $f (func)) {})", import.repeat(count));
            wat::parse_str(text).unwrap()
        };
        let many = imports("a:b/c", COMPONENT_NAMES_MAX + 7);
        let error = refusal(&many);
        assert!(error.contains("more than 100000 imports and exports"), "{error}");
        assert_eq!(outline(&many).unwrap().imports.len(), OUTLINE_NAMES_MAX);
        let long = imports(&format!("a:{}/c", "x".repeat(50_000)), 100);
        assert!(refusal(&long).len() < 10_000);
        assert_eq!(outline(&long).unwrap().imports[0].len(), OUTLINE_NAME_BYTES_MAX);
    }

    #[test]
    fn functions_that_compile_for_minutes_are_refused() {
        let nest = format!(
            "(component (core module (func {} {})))",
            "block ".repeat(6_000),
            "end ".repeat(6_000)
        );
        assert!(refusal(nest.as_bytes()).contains("nested blocks"));
        let locals = format!(
            "(component (core module (func (local {}) {})))",
            "i32 ".repeat(40_000),
            "block end ".repeat(20_000)
        );
        assert!(refusal(locals.as_bytes()).contains("locals times blocks"));
    }

    #[test]
    fn too_many_functions_are_refused_before_compiling() {
        let functions = "(func)".repeat(usize::try_from(COMPONENT_FUNCTIONS_MAX).unwrap() + 1);
        let error = refusal(format!("(component (core module {functions}))").as_bytes());
        assert!(error.contains("functions"), "{error}");
    }
}
