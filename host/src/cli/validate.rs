//! `clawhost validate`: every problem of every document.

use clawhost_core::error::exit;
use clawhost_core::manifest::{DocumentError, Manifest, Settings};
use serde_json::{Value, json};

use super::args::ValidateArgs;
use super::fail::{Fail, print_document};
use super::{setup, show};

pub(super) fn run(args: &ValidateArgs) -> Result<u8, Fail> {
    let problems = match check(args) {
        Ok(manifest) => {
            report_valid(args, &manifest.notes);
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

/// Checks the runtime file beside the documents as well: it says which registries they come from,
/// and what profiles get.
fn check(args: &ValidateArgs) -> Result<Manifest, Vec<DocumentError>> {
    let config = setup::config(&args.files, args.config.as_deref());
    let (settings, mut problems) = match config {
        Ok(config) => (config.settings, Vec::new()),
        Err(problems) => (Settings::default(), problems),
    };
    let manifest = setup::manifest(&args.files, &settings.registries);
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
