//! `clawhost validate`: every problem of every document, and of what the tools folder holds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawhost_core::catalog::{Annotations, ckp_name, claude_note};
use clawhost_core::composite::local_name;
use clawhost_core::error::exit;
use clawhost_core::grants::Mount;
use clawhost_core::manifest::{
    self, DocumentError, Documents as _, Manifest, PRIMITIVE_NOT_FOUND, Profile, Settings,
    ToolBinding,
};
use clawhost_core::uri::ClawUri;
use serde_json::json;

use super::args::ValidateArgs;
use super::fail::{Fail, print_document};
use super::{setup, show};
use crate::config;
use crate::registry::{
    self, FileDocuments, Preview, built_in_names, built_in_tools, preview, tool_names,
};

pub(super) async fn run(args: ValidateArgs) -> Result<u8, Fail> {
    let problems = match check_all(&args).await {
        Ok(notes) => {
            report_valid(&args, &notes);
            return Ok(exit::OK);
        }
        Err(problems) => problems,
    };
    if args.json {
        show::json(&json!({"valid": false, "problems": problems}));
    } else {
        problems.iter().for_each(print_document);
        eprintln!("{} problem(s)", problems.len());
        if let Some(folder) = beside(&args) {
            let folder = folder.display();
            eprintln!("hint: what is not there lies beside it: clawhost validate {folder}");
        }
    }
    Ok(exit::DOCUMENT)
}

/// Returns the folder of the only document that was given, where what it lacks is in that folder.
fn beside(args: &ValidateArgs) -> Option<PathBuf> {
    let [file] = args.files.as_slice() else { return None };
    let folder = file.parent().filter(|_| file.is_file())?;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let registries = settings(&args.files, args.config.as_deref()).0.registries;
    let missing = |path: &Path| {
        let problems = setup::manifest(&[path.to_owned()], &registries).err().unwrap_or_default();
        problems.iter().filter(|problem| problem.code == PRIMITIVE_NOT_FOUND).count()
    };
    (missing(folder) < missing(file)).then(|| folder.to_owned())
}

/// Returns every note, or every problem, once each.
async fn check_all(args: &ValidateArgs) -> Result<Vec<String>, Vec<DocumentError>> {
    let (mut notes, mut problems) = (Vec::new(), Vec::new());
    let (runtime, files): (Vec<_>, Vec<_>) =
        args.files.iter().cloned().partition(|file| config::is_runtime_file(file));
    for file in &runtime {
        problems.extend(settings(&[], Some(file)).1);
        if files.is_empty() {
            let file = file.display();
            notes.push(format!("{file}: name the documents too, and its profiles and providers are checked with theirs"));
        }
    }
    let config = args.config.as_deref().or_else(|| runtime.first().map(PathBuf::as_path));
    let runs = if files.is_empty() { Vec::new() } else { runs(&files) };
    for files in runs {
        match check(&files, config, args.tools.as_deref()).await {
            Ok(more) => notes.extend(more),
            Err(more) => problems.extend(more),
        }
    }
    let mut seen = BTreeSet::new();
    notes.retain(|note| seen.insert(note.clone()));
    problems.retain(|problem| seen.insert(problem.one_line()));
    if problems.is_empty() { Ok(notes) } else { Err(problems) }
}

/// Checks the runtime file beside the documents as well: it says which registries they come from,
/// what profiles get, and which folder holds more tools with documents of their own.
async fn check(
    files: &[PathBuf],
    config: Option<&Path>,
    tools: Option<&Path>,
) -> Result<Vec<String>, Vec<DocumentError>> {
    let (settings, mut problems) = settings(files, config);
    let manifest = setup::manifest(files, &settings.registries);
    let applied = manifest.and_then(|mut manifest| {
        settings.apply(&mut manifest)?;
        settings.define(&FileDocuments, &mut manifest)?;
        Ok(Arc::new(manifest))
    });
    let manifest = match applied {
        Ok(manifest) => manifest,
        Err(more) => {
            problems.extend(more);
            return Err(problems);
        }
    };
    // A folder that is not there was reported, unless it was typed.
    let folder = settings.tools.directory.as_deref().filter(|folder| folder.is_dir());
    let dropped = match tools.or(folder) {
        Some(folder) => {
            let engine = setup::engine();
            let engine =
                engine.map_err(|why| vec![DocumentError::whole_file(folder, &why, None)])?;
            let replaceable = &settings.tools.replace_builtins;
            let read = preview(folder, Arc::clone(&manifest), engine, replaceable);
            setup::patiently("reading the tools folder", read).await
        }
        None => Preview::default(),
    };
    problems.extend(dropped.problems);
    problems.extend(manifest.broken_services.iter().flat_map(|broken| broken.problems.clone()));
    let offered = || dropped.tools.iter().map(|tool| tool.name.clone());
    problems.extend(undefined(&manifest, offered(), tools_may_come(&settings, tools)));
    // What the version of a registry has is not looked at here.
    if settings.releases.is_none() {
        let names = tool_names(&manifest, offered());
        problems.extend(missing_steps(&manifest, &names, &dropped.tools));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut notes = notes(&manifest, &dropped.tools);
    notes.extend(reserved(&manifest, &settings.tools.replace_builtins));
    Ok(notes)
}

/// Says whether tools may appear later that are in no folder and at no server yet.
pub(super) fn tools_may_come(settings: &Settings, tools: Option<&Path>) -> bool {
    tools.or(settings.tools.directory.as_deref()).is_some() || settings.releases.is_some()
}

/// Returns the problem of each tool that the runtime file or a definition names and nobody can have, where
/// `offered` is what others have than the host and its documents. Where tools `may_come`, only what looks
/// like a slip of the pen is one: a host starts before its tools are all there.
pub(super) fn undefined(
    manifest: &Manifest,
    offered: impl Iterator<Item = String>,
    may_come: bool,
) -> Vec<DocumentError> {
    let names = tool_names(manifest, offered);
    manifest.governance.strays(&names, |name| may_come || may_be_a_servers(manifest, name))
}

/// Returns the problem of each composite that calls what none of `names` is, where `dropped` is what the tools
/// folder offers.
fn missing_steps(
    manifest: &Manifest,
    names: &[String],
    dropped: &[ToolBinding],
) -> Vec<DocumentError> {
    let is_there = |tool: &str| {
        let name = local_name(tool);
        let is_known = names.contains(&name) && is_meant(manifest, dropped, tool);
        is_known || may_be_a_servers(manifest, &name)
    };
    manifest.governance.composites().filter_map(|own| own.missing(is_there)).collect()
}

/// Says whether an address means the tool that has its name, as a catalog looks it up: by its version, or by the
/// whole of it where a registry gave the tool. What is no address, or has no version, says nothing of that.
fn is_meant(manifest: &Manifest, dropped: &[ToolBinding], tool: &str) -> bool {
    let version = |name: &str| {
        let mut of = manifest.tools.iter().chain(dropped).filter(|of| of.name == name);
        of.find_map(|of| of.version.clone())
    };
    match ClawUri::parse(tool) {
        Err(_) => true,
        Ok(ClawUri::Local(uri)) => uri.version.is_none() || uri.version == version(&uri.name),
        Ok(ClawUri::Registry(uri)) => {
            let mut fetched = manifest.fetched.iter().filter(|of| of.component.is_some());
            let given = fetched.find(|of| of.uri.name == uri.name);
            let is_version = || version(&uri.name).as_ref() == Some(&uri.version);
            given.map_or_else(is_version, |of| of.uri == uri)
        }
    }
}

/// Says whether a server, which nobody asks what it has, may have the tool of a name, or one that a pattern is for.
fn may_be_a_servers(manifest: &Manifest, name: &str) -> bool {
    let begins = name.strip_suffix('*');
    manifest.mcp_servers.iter().any(|server| {
        let own = format!("{}-", ckp_name(&server.name));
        name.starts_with(&own) || begins.is_some_and(|begins| own.starts_with(begins))
    })
}

/// Returns the settings, and what is wrong with them.
fn settings(files: &[PathBuf], config: Option<&Path>) -> (Settings, Vec<DocumentError>) {
    match setup::config(files, config) {
        Ok(settings) => {
            let missing = settings.tools.missing(Path::is_dir, &built_in_tools());
            (settings, missing)
        }
        Err(problems) => (Settings::default(), problems),
    }
}

/// Says what is valid and does nothing, where `dropped` is what the tools folder offers.
fn notes(manifest: &Manifest, dropped: &[ToolBinding]) -> Vec<String> {
    let names = || built_in_names().chain(dropped.iter().map(|tool| tool.name.clone()));
    // The host's own tools say all of MCP's hints about themselves.
    let has_built_in = built_in_names().any(|name| manifest.tools.iter().any(|of| of.name == name));
    let is_declared = |key: &str| {
        (has_built_in && Annotations::KEYS.contains(&key))
            || dropped.iter().any(|tool| tool.declared().contains_key(key))
    };
    let mut notes = missing_folders(manifest);
    let misplaced = registry::misplaced(manifest).into_iter();
    notes.extend(misplaced.map(|one| format!("{}: {}", one.source, one.reason)));
    let may_come = |name: &str| may_be_a_servers(manifest, name);
    notes.extend(manifest.stray_rules(names(), may_come, is_declared));
    notes.extend(manifest.stray_tools(names()));
    notes.extend_from_slice(&manifest.notes);
    notes.extend_from_slice(&manifest.governance.notes);
    let of_claude = |tool: &ToolBinding| {
        let note = claude_note(&tool.name, tool.input_schema.as_ref()?)?;
        Some(format!("{}: {note}", tool.at))
    };
    let tools = || manifest.tools.iter().chain(dropped);
    notes.extend(tools().flat_map(|tool| tool.notes.iter().cloned()));
    notes.extend(tools().filter_map(of_claude));
    notes
}

/// Says which tools of MCP servers are not served, as a built-in tool has the name.
fn reserved(manifest: &Manifest, replaced: &BTreeSet<String>) -> Vec<String> {
    let note = |binding: &ToolBinding| {
        let name = built_in_tools().find(|name| ckp_name(name) == binding.name)?;
        let is_kept = binding.mcp.is_some() && !replaced.contains(name);
        is_kept.then(|| {
            let ToolBinding { at, name: own, .. } = binding;
            format!("{at}: `{own}` is not served: the name is a built-in tool's, unless `tools.replace_builtins` of clawhost.yaml lists `{name}`")
        })
    };
    manifest.tools.iter().filter_map(note).collect()
}

/// Says which folders are not there: whoever starts the host has to make them.
fn missing_folders(manifest: &Manifest) -> Vec<String> {
    let note = |profile: &Profile| {
        let missing = profile.mounts.iter().filter(|mount| !mount.create && !mount.host.is_dir());
        let note = |mount: &Mount| {
            let (at, folder, name) = (&profile.at, mount.host.display(), &profile.name);
            let (is, help) = match mount.host.is_file() {
                true => (format!("`{folder}` is a file"), "mount the folder that holds it"),
                false => (format!("there is no folder `{folder}`"), "make it"),
            };
            format!("{at}: {is}: {help}, or tools under the profile `{name}` cannot be served")
        };
        missing.map(note).collect::<Vec<_>>()
    };
    manifest.profiles.values().flat_map(note).collect()
}

/// A run has one Claw: of several, each is checked with all documents that are none.
fn runs(files: &[PathBuf]) -> Vec<Vec<PathBuf>> {
    let is_claw =
        |file: &&PathBuf| FileDocuments.read(file).is_ok_and(|bytes| manifest::is_claw(&bytes));
    let (claws, others): (Vec<_>, Vec<_>) = files.iter().partition(is_claw);
    if claws.len() < 2 {
        return vec![files.to_vec()];
    }
    let run = |claw: &PathBuf| [claw].into_iter().chain(others.iter().copied()).cloned().collect();
    claws.into_iter().map(run).collect()
}

fn report_valid(args: &ValidateArgs, notes: &[String]) {
    if args.json {
        show::json(&json!({"valid": true, "notes": notes}));
        return;
    }
    for note in notes {
        show::line(&format!("note: {note}"));
    }
    show::line("valid");
}
