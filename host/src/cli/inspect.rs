//! `clawhost inspect`: what a component is and what it would need, before anything is granted.
//!
//! A file that is refused is described as well, as far as its structure says. What components
//! say is made visible, as whoever inspects one does not trust it yet.

mod service;

use std::path::{Path, PathBuf};

use clawhost_core::catalog::{ToolDefinition, ckp_name};
use clawhost_core::error::exit;
use clawhost_core::imports::{self, Class};
use clawhost_core::json::put;
use clawhost_core::visible;
use serde_json::{Value, json};

use super::args::InspectArgs;
use super::fail::{Blame as _, Fail};
use super::{setup, show, words};
use crate::engine::check::{self, Outline};
use crate::engine::{LoadError, Loaded};

pub(super) async fn run(args: InspectArgs) -> Result<u8, Fail> {
    if let Some(descriptor) = descriptor(&args.file)? {
        return service::run(&descriptor, args.json);
    }
    let bytes = setup::read_file(&args.file)?;
    let outline = check::outline(&bytes);
    let engine = setup::engine().or_fail(exit::UPSTREAM)?;
    let loaded = match setup::patiently("compiling the component", engine.load(bytes)).await {
        Ok(loaded) => loaded,
        Err(LoadError::Passing(reason)) => return Err(Fail::new(exit::UPSTREAM, reason)),
        Err(error) => return Err(refused(&args, outline.as_ref(), &error.to_string())),
    };
    let stem = args.file.file_stem().unwrap_or_default().to_string_lossy();
    let definitions = loaded.definitions_as(&stem);
    if args.json {
        show::json(&as_json(&loaded, &definitions));
    } else if let Some(tool) = &args.manifest {
        show::line(document(&loaded, chosen(&definitions, tool.as_deref())?)?.trim_end());
    } else {
        print(&loaded, &definitions);
    }
    Ok(exit::OK)
}

/// Returns the descriptor that is meant: a file, or that of a service which the runtime file names.
fn descriptor(file: &Path) -> Result<Option<PathBuf>, Fail> {
    if file.extension().is_some_and(|of| of == "json") {
        return Ok(Some(file.to_owned()));
    }
    if file.extension().is_some_and(|of| of == "yaml" || of == "yml") && file.is_file() {
        let hint =
            "`clawhost validate` checks it, and `clawhost tools` says what its tools may touch";
        return Err(Fail::usage_at(file, "it is a document and no component", hint));
    }
    if file.exists() {
        return Ok(None);
    }
    let settings = setup::config(&[], None)?;
    let name = file.to_string_lossy();
    let found = settings.descriptor_of(&name).map(Path::to_owned);
    if found.is_none() && file.extension().is_none() {
        let here = std::env::current_dir().unwrap_or_default();
        let hint = format!(
            "name a component's file or one of `tools.services`; {} is where it was looked for; what a served tool may touch, `clawhost tools` says",
            here.display()
        );
        return Err(Fail::usage(format!("there is no file and no service `{name}`"), &hint));
    }
    Ok(found)
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

/// What an import may ask for.
#[derive(Debug, PartialEq, Eq)]
struct Need {
    /// What a profile has to hold, in words.
    says: &'static str,
    /// The built-in profiles that grant it, the one that grants least first. No document can grant
    /// a provider, a channel or a secret: only the runtime file does.
    profiles: &'static [&'static str],
}

/// All of them, in the order in which they are told.
const NEEDS: [Need; 9] = [
    Need { says: "what no profile grants", profiles: &[] },
    Need { says: "`shell.mode: full`", profiles: &["process"] },
    Need { says: "hosts in a `network` block", profiles: &["network"] },
    Need { says: "`provider: true` in clawhost.yaml", profiles: &[] },
    Need { says: "keys and values, `memory: true` in clawhost.yaml", profiles: &["memory"] },
    Need { says: "`channels` in clawhost.yaml", profiles: &[] },
    Need { says: "`secrets` in clawhost.yaml", profiles: &[] },
    Need { says: "calls of other tools, `tool_calls_max` in clawhost.yaml", profiles: &["tools"] },
    Need {
        says: "a mounted folder, without which it opens no file",
        profiles: &["fs-readonly", "workspace", "process"],
    },
];

fn need_of(import: &str) -> Option<&'static Need> {
    let [never, process, network, provider, memory, channels, secrets, tools, files] = &NEEDS;
    Some(match imports::class_of(import) {
        Some(Class::Inert) if import.starts_with("wasi:filesystem/") => files,
        Some(Class::Inert) => return None,
        Some(Class::Network) => network,
        Some(Class::Process) => process,
        Some(Class::Provider) => provider,
        Some(Class::Memory) => memory,
        Some(Class::Channels) => channels,
        Some(Class::Secrets) => secrets,
        Some(Class::Tools) => tools,
        Some(Class::Reserved | Class::Never) | None => never,
    })
}

/// Says in words what one import asks for.
fn needs(import: &str) -> &'static str {
    need_of(import).map_or("nothing (inert)", |need| need.says)
}

/// What the imports of a component ask for, taken together.
struct Wants(Vec<&'static Need>);

impl Wants {
    fn of(imports: &[String]) -> Self {
        let asked = |need: &&Need| imports.iter().any(|it| need_of(it) == Some(need));
        Self(NEEDS.iter().filter(asked).collect())
    }

    /// What a profile has to hold, in words; empty where it need hold nothing.
    fn needs(&self) -> Vec<&'static str> {
        self.0.iter().map(|need| need.says).collect()
    }

    /// The built-in profiles that grant all of it, the one that grants least first.
    fn profiles(&self) -> Vec<&'static str> {
        let first = self.0.first().map_or(&["none"][..], |need| need.profiles);
        let grants_all = |name: &&str| self.0.iter().all(|need| need.profiles.contains(name));
        first.iter().copied().filter(grants_all).collect()
    }

    /// Says which built-in profile to use, or that there is none.
    fn advice(&self) -> String {
        let [never, ..] = &NEEDS;
        match self.profiles().first() {
            _ if self.0.contains(&never) => "it cannot be served".to_owned(),
            Some(&"fs-readonly") => {
                "the profile `fs-readonly` to read, `workspace` to write too".to_owned()
            }
            Some(name) => format!("the profile `{name}`"),
            None => "no built-in profile grants all of it: write one".to_owned(),
        }
    }
}

fn print(loaded: &Loaded, definitions: &[ToolDefinition]) {
    print_head("component", loaded.size_bytes, &loaded.digest);
    show::line(&format!("world      {}", loaded.world.words()));
    let wants = Wants::of(&loaded.imports);
    show::line(&format!("would need {} ({})", in_words(&wants), wants.advice()));
    show::line(&format!("can never  {}", imports::never(&loaded.imports).join("; ")));
    print_imports(&loaded.imports, needs);
    definitions.iter().for_each(print_tool);
    for why in &loaded.left_out {
        show::line(&format!("\n{}", visible::line(why)));
    }
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
        show::line(&format!("would need {}", in_words(&Wants::of(&outline.imports))));
    }
    print_imports(&outline.imports, needs_of(outline));
}

const fn kind(outline: &Outline) -> &'static str {
    if outline.is_core { "core module" } else { "component" }
}

fn needs_of(outline: &Outline) -> fn(&str) -> &'static str {
    if outline.is_core { |_| "a component around the module" } else { needs }
}

fn in_words(wants: &Wants) -> String {
    match wants.needs().as_slice() {
        [] => "nothing".to_owned(),
        needs => needs.join("; "),
    }
}

fn print_head(kind: &str, size_bytes: usize, digest: &str) {
    show::line(&format!("{kind:<10} {size_bytes} bytes, {digest}"));
}

fn print_imports(imports: &[String], needs: fn(&str) -> &'static str) {
    if imports.is_empty() {
        return;
    }
    let mut table = show::table(&["import", "needs"]);
    for import in imports {
        table.add_row([visible::line(import).as_str(), needs(import)]);
    }
    show::line(&table.trim_fmt());
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

fn as_json(loaded: &Loaded, definitions: &[ToolDefinition]) -> Value {
    let wants = Wants::of(&loaded.imports);
    json!({
        "kind": "component",
        "digest": loaded.digest,
        "size_bytes": loaded.size_bytes,
        "world": loaded.world.words(),
        "needs": wants.needs(),
        "profiles": wants.profiles(),
        "never": imports::never(&loaded.imports),
        "imports": imports_json(&loaded.imports, needs),
        "tools": definitions,
        "left_out": loaded.left_out,
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

/// Returns a complete CKP Tool document for a tool of the component.
fn document(loaded: &Loaded, definition: &ToolDefinition) -> Result<String, Fail> {
    let wants = Wants::of(&loaded.imports);
    let mut spec = json!({
        "description": definition.description,
        "input_schema": definition.input_schema,
        "sandbox_ref": wants.profiles().first().unwrap_or(&"none"),
        "timeout_ms": clawhost_core::limits::TOOL_TIMEOUT_MS,
    });
    put(&mut spec, "output_schema", definition.output_schema.clone());
    let document = json!({
        "claw": "0.3.0", "kind": "Tool", "metadata": {"name": ckp_name(&definition.name)}, "spec": spec,
    });
    let text = serde_saphyr::to_string(&document).or_fail(exit::INTERNAL)?;
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
        match tool {
            Some(tool) => words::no_such("tool", tool, &names),
            None => {
                let hint = format!("choose one with --manifest=TOOL: {}", names.join(", "));
                Fail::usage("the component offers several tools", &hint)
            }
        }
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
            (&[FILES], 1, &["fs-readonly", "workspace", "process"]),
            (&[WEB], 1, &["network"]),
            (&[PROCESS], 1, &["process"]),
            (&[PROCESS, FILES], 2, &["process"]),
            (&[WEB, FILES], 2, NONE),
            (&[PROCESS, WEB], 2, NONE),
            (&[PROCESS, WEB, FILES], 3, NONE),
            (&["wasi:sockets/tcp@0.2.12"], 1, NONE),
        ] {
            let wants = wants(imports);
            assert_eq!(
                (wants.needs().len(), wants.profiles()),
                (needs, profiles.to_vec()),
                "{imports:?}"
            );
        }
    }
}
