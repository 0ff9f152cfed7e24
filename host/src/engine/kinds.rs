//! What a component is, and how its tools are called: read from the component, never configured.
//!
//! Looked for in this order: a tool of our own world, a WASI command, functions of any other
//! world. A core preview-1 module is wrapped into a command before it gets here ([`preview1`]).
//! Deliberately absent: any power. What a component of any kind reaches is decided
//! by its imports and its profile alone.

pub(super) mod docs;
mod functions;
pub(super) mod preview1;
mod schema;
#[cfg(test)]
mod tests;
pub(crate) mod value;

use clawhost_core::catalog::{Annotations, ToolDefinition};
use clawhost_core::json::held_bytes;
use clawhost_core::limits::COMPONENT_SCHEMAS_BYTES_MAX;
use serde::{Deserialize, Serialize};
use serde_json::json;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, ComponentExportIndex, Type};

use crate::sandbox::bindings::GuestIndices;
use docs::Docs;
pub(crate) use functions::{Function, Functions};

/// The world of our own tools: its export, up to the patch version.
const TOOL_EXPORT: &str = "claw:tool/tool@0.1.";
/// The exports of commands, likewise.
const COMMAND_EXPORTS: [&str; 2] = ["wasi:cli/run@0.2.", "wasi:cli/run@0.3."];
/// Exports of worlds that are ours to serve, in a version that this host does not know.
const OTHER_VERSIONS: [&str; 2] = ["claw:tool/", "wasi:cli/run"];
/// What a command is called until its file gives it a name.
const COMMAND_NAME: &str = "command";

/// What a component is, and where its code is entered.
pub(crate) enum Kind {
    /// A component of the world `claw:tool/guest`, which describes its own tools.
    Tool(GuestIndices),
    /// A program: arguments and standard input in, standard output and an exit code out.
    Command(ComponentExportIndex),
    /// A component of another world: each function that it exports is a tool.
    Functions(Functions),
}

/// What a component is, as is known without its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum World {
    /// [`Kind::Command`].
    Command,
    /// [`Kind::Functions`].
    Functions,
    /// [`Kind::Tool`].
    Tool,
}

/// What can be told from a component alone.
pub(super) enum Outline {
    /// It has to be asked.
    Tool,
    /// It is this already.
    Settled(Kind),
}

/// Says, from the names that a component exports, whether this host serves its world.
///
/// # Errors
/// A sentence: it exports nothing, or a version that this host does not know.
pub(super) fn check_exports<'a>(mut exports: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut any = false;
    let unknown = exports.find(|name| {
        any = true;
        let is_known = name.starts_with(TOOL_EXPORT) || is_command(name);
        !is_known && OTHER_VERSIONS.iter().any(|other| name.starts_with(other))
    });
    match unknown {
        Some(name) => Err(format!(
            "it is of another world: it exports `{name}`; this host serves `{TOOL_EXPORT}0` and `wasi:cli/run@0.2.x`"
        )),
        None if any => Ok(()),
        None => Err("it is of another world: it exports no function that could be a tool".into()),
    }
}

/// Reads what a compiled component is.
///
/// # Errors
/// A sentence: a command that is none, or no function that can be a tool.
pub(super) fn outline(
    engine: &wasmtime::Engine,
    component: &Component,
    docs: &Docs,
) -> Result<Outline, String> {
    let component_type = component.component_type();
    let mut names = component_type.exports(engine).map(|(name, _)| name);
    if names.any(|name| name.starts_with(TOOL_EXPORT)) {
        return Ok(Outline::Tool);
    }
    let mut names = component_type.exports(engine).map(|(name, _)| name);
    let kind = match names.find(|name| is_command(name)) {
        Some(name) => Kind::Command(run_of(component, name)?),
        None => Kind::Functions(Functions::of(engine, component, docs)?),
    };
    Ok(Outline::Settled(kind))
}

fn is_command(export: &str) -> bool {
    COMMAND_EXPORTS.iter().any(|known| export.starts_with(known))
}

/// Returns the entry of a command.
fn run_of(component: &Component, interface: &str) -> Result<ComponentExportIndex, String> {
    let interface_index = component.get_export_index(None, interface);
    let run = interface_index.and_then(|index| component.get_export(Some(&index), "run"));
    let Some((ComponentItem::ComponentFunc(run), index)) = run else {
        return Err(format!("it exports `{interface}` without its function `run`"));
    };
    let is_bare =
        |ty: &Type| matches!(ty, Type::Result(ty) if ty.ok().is_none() && ty.err().is_none());
    let (mut params, mut results) = (run.params(), run.results());
    if params.next().is_none() && results.next().is_some_and(|ty| is_bare(&ty)) {
        return Ok(index);
    }
    Err(format!("`run` of `{interface}` is not `func() -> result`"))
}

impl Kind {
    /// Returns what this kind's tools are, where nobody needs to be asked.
    pub(super) fn definitions(&self) -> Vec<ToolDefinition> {
        match self {
            Self::Tool(_) => Vec::new(),
            Self::Command(_) => vec![command(COMMAND_NAME)],
            Self::Functions(functions) => functions.definitions().to_vec(),
        }
    }

    /// Returns why functions that it exports are no tools, one sentence each.
    pub(super) fn left_out(&self) -> &[String] {
        if let Self::Functions(functions) = self { functions.left_out() } else { &[] }
    }

    pub(super) fn world(&self) -> World {
        match self {
            Self::Command(_) => World::Command,
            Self::Functions(_) => World::Functions,
            Self::Tool(_) => World::Tool,
        }
    }
}

clawhost_core::table! {
    /// Returns what the component is, in a few words for people.
    pub(crate) World::words: &'static str {
        Tool: "claw:tool/tool@0.1.0",
        Command: "wasi:cli/command (a program; its file's name is the tool's)",
        Functions: "its own (each function that it exports is a tool)",
    }
}

/// Returns what the schemas of a component's tools take in memory, where those before this one take `held`.
///
/// # Errors
/// That is more than a component may have: a small file can describe gigabytes.
pub(super) fn held_with(held: usize, tool: &ToolDefinition) -> Result<usize, String> {
    let schemas = std::iter::once(&tool.input_schema).chain(&tool.output_schema);
    let held = held + schemas.map(held_bytes).sum::<usize>();
    if held > COMPONENT_SCHEMAS_BYTES_MAX {
        return Err(format!(
            "the schemas of its tools take more than {COMPONENT_SCHEMAS_BYTES_MAX} bytes of memory together: offer fewer tools, or simpler ones"
        ));
    }
    Ok(held)
}

/// Returns the definition of the command `name`.
pub(super) fn command(name: &str) -> ToolDefinition {
    let text = |description: &str| json!({"type": "string", "description": description});
    ToolDefinition {
        name: name.to_owned(),
        title: None,
        description: format!(
            "Runs the program `{name}`: its standard output is the result, and an exit code other than 0 a failure."
        ),
        input_schema: json!({
            "type": "object",
            "properties": {
                "args": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Its arguments, without the program's own name.",
                },
                "stdin": text("What it can read from standard input."),
            },
            "additionalProperties": false,
        }),
        output_schema: Some(json!({
            "type": "object",
            "properties": {
                "stdout": text("Standard output; bytes that are no UTF-8 are replaced."),
                "stderr": text("Standard error, likewise."),
                "exit_code": {"type": "integer"},
            },
            "required": ["stdout", "stderr", "exit_code"],
            "additionalProperties": false,
        })),
        annotations: Annotations::default(),
    }
}

/// Returns the form of a WIT name that a tool has: `word-count` is `word_count`.
pub(super) fn tool_name(wit: &str) -> String {
    wit.replace('-', "_")
}
