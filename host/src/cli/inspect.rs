//! `clawhost inspect`: what a component is and what it would need, before anything is granted.

use std::sync::Arc;

use clawhost_core::catalog::ckp_name;
use clawhost_core::error::exit;
use clawhost_core::imports::{self, Class};
use serde_json::{Value, json};

use super::args::InspectArgs;
use super::fail::Fail;
use super::{setup, show};
use crate::engine::{Engine, Loaded};

pub(super) async fn run(args: InspectArgs) -> Result<u8, Fail> {
    let bytes = setup::read_file(&args.file)?;
    let engine =
        Engine::new(1, None).map_err(|error| Fail::new(exit::UPSTREAM, format!("{error:#}")))?;
    let loaded = Arc::new(engine).load(bytes).await;
    let loaded = loaded
        .map_err(|error| Fail::new(exit::DOCUMENT, format!("{}: {error}", args.file.display())))?;
    if args.json {
        show::json(&as_json(&loaded));
    } else if let Some(tool) = &args.manifest {
        show::line(document(&loaded, tool.as_deref())?.trim_end());
    } else {
        print(&loaded);
    }
    Ok(exit::OK)
}

/// Says in words what an import asks for.
fn needs(import: &str) -> &'static str {
    match imports::class_of(import) {
        Some(Class::Inert) => "nothing (inert)",
        Some(Class::Network) => "a profile with a `network` block",
        Some(Class::Process) => "a profile with `shell.mode: full`",
        Some(Class::Reserved | Class::Never) | None => "cannot be granted",
    }
}

/// The built-in profile that grants just what the component imports.
fn profile_for(loaded: &Loaded) -> &'static str {
    let has = |class| loaded.imports.iter().any(|import| imports::class_of(import) == Some(class));
    let files = loaded.imports.iter().any(|import| import.starts_with("wasi:filesystem/"));
    match (has(Class::Process), has(Class::Network), files) {
        (true, _, _) => "process",
        (false, true, _) => "network",
        (false, false, true) => "fs-readonly",
        (false, false, false) => "none",
    }
}

fn print(loaded: &Loaded) {
    show::line(&format!("component  {} bytes, {}", loaded.size_bytes, loaded.digest));
    show::line("world      claw:tool/tool@0.1.0");
    show::line(&format!("would need {}", profile_for(loaded)));
    let mut table = show::table(&["import", "needs"]);
    for import in &loaded.imports {
        table.add_row([import.as_str(), needs(import)]);
    }
    show::line(&table.to_string());
    for definition in &loaded.definitions {
        show::line(&format!("\ntool {}\n  {}", definition.name, definition.description));
        show::line(&format!("  input  {}", definition.input_schema));
        if let Some(schema) = &definition.output_schema {
            show::line(&format!("  output {schema}"));
        }
    }
}

fn as_json(loaded: &Loaded) -> Value {
    let imports =
        loaded.imports.iter().map(|import| json!({"interface": import, "needs": needs(import)}));
    json!({
        "digest": loaded.digest,
        "size_bytes": loaded.size_bytes,
        "world": "claw:tool/tool@0.1.0",
        "profile": profile_for(loaded),
        "imports": Value::from_iter(imports),
        "tools": loaded.definitions,
    })
}

/// Returns a complete CKP Tool document for the component's tool, or for one of several.
fn document(loaded: &Loaded, tool: Option<&str>) -> Result<String, Fail> {
    let names: Vec<&str> =
        loaded.definitions.iter().map(|definition| definition.name.as_str()).collect();
    let found = match (tool, loaded.definitions.as_slice()) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(tool), all) => all.iter().find(|definition| definition.name == tool),
    };
    let Some(definition) = found else {
        let hint = format!("choose one with --manifest=TOOL: {}", names.join(", "));
        return Err(Fail::usage("the component offers several tools, or none of that name", &hint));
    };
    let mut spec = json!({
        "description": definition.description,
        "input_schema": definition.input_schema,
        "sandbox_ref": profile_for(loaded),
        "timeout_ms": clawhost_core::limits::TOOL_TIMEOUT_MS,
    });
    if let (Some(schema), Some(spec)) = (&definition.output_schema, spec.as_object_mut()) {
        spec.insert("output_schema".to_owned(), schema.clone());
    }
    let document = json!({
        "claw": "0.3.0", "kind": "Tool", "metadata": {"name": ckp_name(&definition.name)}, "spec": spec,
    });
    serde_saphyr::to_string(&document).map_err(|error| Fail::new(exit::INTERNAL, error))
}
