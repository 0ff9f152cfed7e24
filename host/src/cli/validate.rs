//! `clawhost validate`: every problem of every document.

use clawhost_core::error::exit;
use serde_json::{Value, json};

use super::args::ValidateArgs;
use super::fail::{Fail, print_document};
use super::{setup, show};

pub(super) fn run(args: &ValidateArgs) -> Result<u8, Fail> {
    let problems = match setup::manifest(&args.files) {
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
