//! `clawhost tools`: what is served, what each may touch, and what was refused.

use clawhost_core::catalog::{Catalog, Origin, Refused, Tool};
use clawhost_core::error::exit;
use serde_json::{Value, json};

use super::args::ToolsArgs;
use super::fail::{Fail, print_document};
use super::setup::{self, Purpose};
use super::show;
use crate::Host;
use crate::gate::Standing;

pub(super) async fn run(args: ToolsArgs) -> Result<u8, Fail> {
    let setup = setup::open(&args.paths, &args.places, Purpose::Look).await?;
    let catalog = setup.host.catalog();
    if args.json {
        show::json(&as_json(&setup.host, &catalog));
    } else {
        show::line(&served(&setup.host, &catalog));
        catalog.refused.iter().for_each(tell);
    }
    Ok(if catalog.refused.is_empty() { exit::OK } else { exit::DOCUMENT })
}

/// Prints what was refused: wrong documents of components as `validate` does, the rest in a line.
fn tell(refused: &Refused) {
    refused.problems.iter().for_each(print_document);
    if refused.problems.is_empty() {
        eprintln!("refused: {}: {}", refused.source, refused.reason);
    }
}

/// Returns the table of tools, then what was refused.
pub(super) fn table(host: &Host, catalog: &Catalog) -> String {
    let mut text = served(host, catalog);
    for refused in &catalog.refused {
        text.push_str(&format!("\nrefused: {}: {}", refused.source, refused.reason));
    }
    text
}

fn served(host: &Host, catalog: &Catalog) -> String {
    let mut table = show::table(&["tool", "kind", "sandbox", "may touch", "policy"]);
    for tool in catalog.tools() {
        let grants = &tool.grants;
        table.add_row([
            &tool.definition.name,
            kind(tool),
            &grants.profile,
            &show::calls(&host.manifest(), tool).unwrap_or_else(|| show::touches(grants)),
            &told(host, tool),
        ]);
    }
    let mut text = table.to_string();
    for note in &catalog.notes {
        text.push_str(&format!("\nnote: {note}"));
    }
    for file in &catalog.loading {
        text.push_str(&format!("\nloading: {file}"));
    }
    text
}

fn told(host: &Host, tool: &Tool) -> String {
    let rests = host.quarantine().resting(&tool.ckp_name).into_iter().map(|hold| hold.told());
    std::iter::once(standing(host, tool).to_owned()).chain(rests).collect::<Vec<_>>().join("; ")
}

fn standing(host: &Host, tool: &Tool) -> &'static str {
    match host.standing(tool) {
        Standing::Allowed => "allowed",
        Standing::Asks => "asks",
        Standing::Disabled => "disabled",
        Standing::Refused => "refused",
    }
}

fn kind(tool: &Tool) -> &'static str {
    match tool.origin {
        Origin::Bridged { .. } => "bridged",
        Origin::BuiltIn { .. } => "built-in",
        Origin::Composite { .. } => "composite",
        Origin::DropIn { .. } => "dropped in",
        Origin::Native { .. } => "native",
        Origin::Own => "the host's",
        Origin::Registry { .. } => "registry",
        Origin::Release => "registry version",
        Origin::Service { .. } => "service",
    }
}

fn as_json(host: &Host, catalog: &Catalog) -> Value {
    let tools = catalog.tools().map(|tool| {
        json!({
            "name": tool.definition.name,
            "uri": format!("claw://local/tool/{}", tool.ckp_name),
            "kind": kind(tool),
            "origin": tool.origin.to_string(),
            "digest": tool.digest,
            "sandbox": tool.grants.profile,
            "may_touch": show::calls(&host.manifest(), tool)
                .unwrap_or_else(|| show::touches(&tool.grants)),
            "timeout_ms": u64::try_from(tool.timeout().as_millis()).unwrap_or(u64::MAX),
            "policy": standing(host, tool),
            "quarantine": host.quarantine().resting(&tool.ckp_name),
        })
    });
    let refused = catalog
        .refused
        .iter()
        .map(|refused| json!({"source": refused.source, "reason": refused.reason}));
    json!({"tools": Value::from_iter(tools), "refused": Value::from_iter(refused), "notes": catalog.notes, "loading": catalog.loading})
}
