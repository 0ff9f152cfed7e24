//! `clawhost inspect`: what a component is and what it would need, before anything is granted.
//!
//! A file that is refused is described as well, as far as its structure says. What components
//! say is made visible, as whoever inspects one does not trust it yet.

use std::sync::Arc;

use clawhost_core::catalog::{ToolDefinition, ckp_name};
use clawhost_core::error::exit;
use clawhost_core::imports::{self, Class};
use clawhost_core::visible;
use serde_json::{Value, json};

use super::args::InspectArgs;
use super::fail::Fail;
use super::{setup, show};
use crate::engine::check::{self, Outline};
use crate::engine::{Engine, LoadError, Loaded};

const WORLD: &str = "claw:tool/tool@0.1.0";

pub(super) async fn run(args: InspectArgs) -> Result<u8, Fail> {
    let bytes = setup::read_file(&args.file)?;
    let outline = check::outline(&bytes);
    let engine =
        Engine::new(1, None).map_err(|error| Fail::new(exit::UPSTREAM, format!("{error:#}")))?;
    let loaded = match Arc::new(engine).load(bytes).await {
        Ok(loaded) => loaded,
        Err(LoadError::Passing(reason)) => return Err(Fail::new(exit::UPSTREAM, reason)),
        Err(error) => return Err(refused(&args, outline.as_ref(), &error.to_string())),
    };
    if args.json {
        show::json(&as_json(&loaded));
    } else if let Some(tool) = &args.manifest {
        show::line(document(&loaded, tool.as_deref())?.trim_end());
    } else {
        print(&loaded);
    }
    Ok(exit::OK)
}

/// Says what the refused file is, where that can be told, and returns why it is refused. A
/// document was asked for in vain: nothing but the reason is said then.
fn refused(args: &InspectArgs, outline: Option<&Outline>, reason: &str) -> Fail {
    if let Some(outline) = outline.filter(|_| args.manifest.is_none()) {
        if args.json {
            show::json(&outline_json(outline, reason));
        } else {
            print_outline(outline);
        }
    }
    Fail::new(exit::DOCUMENT, format!("{}: {reason}", args.file.display()))
}

/// What the imports of a component ask for, taken together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Wants {
    process: bool,
    network: bool,
    provider: bool,
    memory: bool,
    channels: bool,
    secrets: bool,
    files: bool,
    /// Something that no profile grants.
    never: bool,
}

impl Wants {
    fn of(imports: &[String]) -> Self {
        imports.iter().fold(Self::default(), |mut wants, import| {
            match imports::class_of(import) {
                Some(Class::Inert) => wants.files |= is_files(import),
                Some(Class::Network) => wants.network = true,
                Some(Class::Process) => wants.process = true,
                Some(Class::Provider) => wants.provider = true,
                Some(Class::Memory) => wants.memory = true,
                Some(Class::Channels) => wants.channels = true,
                Some(Class::Secrets) => wants.secrets = true,
                Some(Class::Reserved | Class::Never) | None => wants.never = true,
            }
            wants
        })
    }

    /// What a profile has to hold, in words; empty where it need hold nothing.
    fn needs(self) -> Vec<&'static str> {
        [
            (self.never, "what no profile grants"),
            (self.process, "`shell.mode: full`"),
            (self.network, "hosts in a `network` block"),
            (self.provider, "`provider: true` in clawhost.yaml"),
            (self.memory, "keys and values"),
            (self.channels, "`channels` in clawhost.yaml"),
            (self.secrets, "`secrets` in clawhost.yaml"),
            (self.files, "a mounted folder, without which it opens no file"),
        ]
        .into_iter()
        .filter_map(|(wanted, what)| wanted.then_some(what))
        .collect()
    }

    /// The built-in profiles that grant all of it, the one that grants least first.
    const fn profiles(self) -> &'static [&'static str] {
        match self {
            // No document can grant a provider or a secret: only the runtime file does.
            Self { never: true, .. }
            | Self { provider: true, .. }
            | Self { channels: true, .. }
            | Self { memory: true, process: true, .. }
            | Self { memory: true, network: true, .. }
            | Self { memory: true, files: true, .. }
            | Self { secrets: true, .. }
            | Self { process: true, network: true, .. }
            | Self { network: true, files: true, .. } => &[],
            Self { process: true, .. } => &["process"],
            Self { memory: true, .. } => &["memory"],
            Self { network: true, .. } => &["network"],
            Self { files: true, .. } => &["fs-readonly", "workspace"],
            _ => &["none"],
        }
    }

    /// Says which built-in profile to use, or that there is none.
    fn advice(self) -> &'static str {
        match self.profiles() {
            [] if self.never => "it cannot be served",
            [] if self.secrets => "a profile with `secrets` in clawhost.yaml",
            [] if self.provider => "a profile with `provider: true` in clawhost.yaml",
            [] if self.channels => "a profile with `channels` in clawhost.yaml",
            [] if self.memory => "a profile with `memory: true` in clawhost.yaml",
            [] => "no built-in profile grants all of it: write one",
            ["fs-readonly", ..] => "the profile `fs-readonly` to read, `workspace` to write too",
            ["process", ..] => "the profile `process`",
            ["memory", ..] => "the profile `memory`",
            ["network", ..] => "the profile `network`",
            _ => "the profile `none`",
        }
    }
}

fn is_files(import: &str) -> bool {
    import.starts_with("wasi:filesystem/")
}

/// Says in words what one import asks for.
fn needs(import: &str) -> &'static str {
    match imports::class_of(import) {
        Some(Class::Inert) if is_files(import) => "a mounted folder, or it opens nothing",
        Some(Class::Inert) => "nothing (inert)",
        Some(Class::Network) => "a profile with a `network` block",
        Some(Class::Process) => "a profile with `shell.mode: full`",
        Some(Class::Provider) => "`provider: true` for its profile in clawhost.yaml",
        Some(Class::Memory) => "the profile `memory`, or `memory: true` for its profile",
        Some(Class::Channels) => "`channels` for its profile in clawhost.yaml",
        Some(Class::Secrets) => "`secrets` for its profile in clawhost.yaml",
        Some(Class::Reserved | Class::Never) | None => "cannot be granted",
    }
}

fn print(loaded: &Loaded) {
    print_head("component", loaded.size_bytes, &loaded.digest);
    show::line(&format!("world      {WORLD}"));
    let wants = Wants::of(&loaded.imports);
    show::line(&format!("would need {} ({})", in_words(wants), wants.advice()));
    print_imports(&loaded.imports, needs);
    loaded.definitions.iter().for_each(print_tool);
}

fn print_outline(outline: &Outline) {
    print_head(kind(outline), outline.size_bytes, &outline.digest);
    let exports = match outline.exports.as_slice() {
        [] => "nothing".to_owned(),
        names => visible::line(&names.join(", ")),
    };
    show::line(&format!("exports    {exports}"));
    // Profiles are about components.
    if !outline.is_core {
        show::line(&format!("would need {}", in_words(Wants::of(&outline.imports))));
    }
    print_imports(&outline.imports, needs_of(outline));
}

const fn kind(outline: &Outline) -> &'static str {
    if outline.is_core { "core module" } else { "component" }
}

fn needs_of(outline: &Outline) -> fn(&str) -> &'static str {
    if outline.is_core { |_| "a component around the module" } else { needs }
}

fn in_words(wants: Wants) -> String {
    match wants.needs().as_slice() {
        [] => "nothing".to_owned(),
        needs => needs.join("; "),
    }
}

fn print_head(kind: &str, size_bytes: usize, digest: &str) {
    show::line(&format!("{kind:<10} {size_bytes} bytes, {digest}"));
}

fn print_imports(imports: &[String], needs: fn(&str) -> &'static str) {
    let mut table = show::table(&["import", "needs"]);
    for import in imports {
        table.add_row([visible::line(import).as_str(), needs(import)]);
    }
    show::line(&table.to_string());
}

fn print_tool(definition: &ToolDefinition) {
    // Further lines are indented as well, so that none of them passes for one of ours.
    let description = visible::block(&definition.description).replace('\n', "\n  ");
    show::line(&format!("\ntool {}\n  {description}", visible::line(&definition.name)));
    let shown = |schema: &Value| visible::line(&schema.to_string());
    show::line(&format!("  input  {}", shown(&definition.input_schema)));
    if let Some(schema) = &definition.output_schema {
        show::line(&format!("  output {}", shown(schema)));
    }
}

fn as_json(loaded: &Loaded) -> Value {
    let wants = Wants::of(&loaded.imports);
    json!({
        "kind": "component",
        "digest": loaded.digest,
        "size_bytes": loaded.size_bytes,
        "world": WORLD,
        "needs": wants.needs(),
        "profiles": wants.profiles(),
        "imports": imports_json(&loaded.imports, needs),
        "tools": loaded.definitions,
    })
}

fn outline_json(outline: &Outline, reason: &str) -> Value {
    json!({
        "kind": kind(outline),
        "digest": outline.digest,
        "size_bytes": outline.size_bytes,
        "exports": outline.exports,
        "imports": imports_json(&outline.imports, needs_of(outline)),
        "refused": reason,
    })
}

fn imports_json(imports: &[String], needs: fn(&str) -> &'static str) -> Value {
    imports.iter().map(|import| json!({"interface": import, "needs": needs(import)})).collect()
}

/// Returns a complete CKP Tool document for the component's tool, or for one of several.
fn document(loaded: &Loaded, tool: Option<&str>) -> Result<String, Fail> {
    let definition = chosen(&loaded.definitions, tool)?;
    let wants = Wants::of(&loaded.imports);
    let mut spec = json!({
        "description": definition.description,
        "input_schema": definition.input_schema,
        "sandbox_ref": wants.profiles().first().unwrap_or(&"none"),
        "timeout_ms": clawhost_core::limits::TOOL_TIMEOUT_MS,
    });
    if let (Some(schema), Some(spec)) = (&definition.output_schema, spec.as_object_mut()) {
        spec.insert("output_schema".to_owned(), schema.clone());
    }
    let document = json!({
        "claw": "0.3.0", "kind": "Tool", "metadata": {"name": ckp_name(&definition.name)}, "spec": spec,
    });
    let text =
        serde_saphyr::to_string(&document).map_err(|error| Fail::new(exit::INTERNAL, error))?;
    // A choice that the operator has to make is said where it is made.
    let is_open = wants.profiles().len() != 1;
    let note =
        if is_open { format!("# sandbox_ref: {}.\n", wants.advice()) } else { String::new() };
    Ok(note + &text)
}

fn chosen<'a>(
    definitions: &'a [ToolDefinition],
    tool: Option<&str>,
) -> Result<&'a ToolDefinition, Fail> {
    let found = match (tool, definitions) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(tool), all) => all.iter().find(|definition| definition.name == tool),
    };
    found.ok_or_else(|| {
        let names: Vec<&str> =
            definitions.iter().map(|definition| definition.name.as_str()).collect();
        let hint = format!("choose one with --manifest=TOOL: {}", names.join(", "));
        Fail::usage("the component offers several tools, or none of that name", &hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(imports: &[&str]) -> Wants {
        Wants::of(&imports.iter().map(|import| (*import).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn profiles_are_named_only_where_they_grant_everything_that_is_imported() {
        const FILES: &str = "wasi:filesystem/types@0.2.12";
        const WEB: &str = "wasi:http/types@0.2.12";
        const PROCESS: &str = "claw:host/process@0.1.0";
        const NONE: &[&str] = &[];
        for (imports, needs, profiles) in [
            (&["wasi:io/streams@0.2.12"][..], 0, &["none"][..]),
            (&[FILES], 1, &["fs-readonly", "workspace"]),
            (&[WEB], 1, &["network"]),
            (&[PROCESS], 1, &["process"]),
            (&[PROCESS, FILES], 2, &["process"]),
            (&[WEB, FILES], 2, NONE),
            (&[PROCESS, WEB], 2, NONE),
            (&[PROCESS, WEB, FILES], 3, NONE),
            (&["wasi:sockets/tcp@0.2.12"], 1, NONE),
        ] {
            let wants = wants(imports);
            assert_eq!((wants.needs().len(), wants.profiles()), (needs, profiles), "{imports:?}");
        }
    }
}
