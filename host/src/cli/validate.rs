//! `clawhost validate`: every problem of every document.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clawhost_core::error::exit;
use clawhost_core::grants::Mount;
use clawhost_core::manifest::{self, DocumentError, Documents as _, Manifest, Profile, Settings};
use serde_json::{Value, json};

use super::args::ValidateArgs;
use super::fail::{Fail, print_document};
use super::{setup, show};
use crate::config;
use crate::registry::{FileDocuments, built_in_names};

pub(super) fn run(args: &ValidateArgs) -> Result<u8, Fail> {
    let problems = match check_all(args) {
        Ok(notes) => {
            report_valid(args, &notes);
            return Ok(exit::OK);
        }
        Err(problems) => problems,
    };
    if args.json {
        let rows = problems.iter().map(|problem| {
            json!({
                "code": problem.code, "file": problem.file, "line": problem.line,
                "column": problem.column, "reason": problem.reason, "help": problem.help,
            })
        });
        show::json(&json!({"valid": false, "problems": Value::from_iter(rows)}));
    } else {
        problems.iter().for_each(print_document);
        eprintln!("{} problem(s)", problems.len());
    }
    Ok(exit::DOCUMENT)
}

/// Returns every note, or every problem, once each.
fn check_all(args: &ValidateArgs) -> Result<Vec<String>, Vec<DocumentError>> {
    let (mut notes, mut problems) = (Vec::new(), Vec::new());
    let (runtime, files): (Vec<_>, Vec<_>) =
        args.files.iter().cloned().partition(|file| config::is_runtime_file(file));
    for file in &runtime {
        problems.extend(setup::config(&[], Some(file)).err().into_iter().flatten());
        if files.is_empty() {
            let file = file.display();
            notes.push(format!("{file}: name the documents too, and its profiles and providers are checked with theirs"));
        }
    }
    let config = args.config.as_deref().or_else(|| runtime.first().map(PathBuf::as_path));
    let runs = if files.is_empty() { Vec::new() } else { runs(&files) };
    for files in runs {
        match check(&files, config) {
            Ok(manifest) => {
                notes.extend(missing_folders(&manifest));
                notes.extend(manifest.stray_rules(built_in_names()));
                notes.extend(manifest.stray_tools(built_in_names()));
                notes.extend(manifest.notes);
            }
            Err(more) => problems.extend(more),
        }
    }
    let mut seen = BTreeSet::new();
    notes.retain(|note| seen.insert(note.clone()));
    problems.retain(|problem| seen.insert(problem.one_line()));
    if problems.is_empty() { Ok(notes) } else { Err(problems) }
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

/// Checks the runtime file beside the documents as well: it says which registries they come from,
/// and what profiles get.
fn check(files: &[PathBuf], config: Option<&Path>) -> Result<Manifest, Vec<DocumentError>> {
    let config = setup::config(files, config);
    let (settings, mut problems) = match config {
        Ok(config) => (config.settings, Vec::new()),
        Err(problems) => (Settings::default(), problems),
    };
    let manifest = setup::manifest(files, &settings.registries);
    let applied = manifest.and_then(|mut manifest| {
        settings.apply(&mut manifest)?;
        Ok(manifest)
    });
    match applied {
        Ok(manifest) if problems.is_empty() => Ok(manifest),
        Ok(_) => Err(problems),
        Err(more) => {
            problems.extend(more);
            Err(problems)
        }
    }
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
