//! `clawhost tools`: what is served, what each may touch, and what was refused.

use clawhost_core::catalog::{Catalog, Refused, Tool};
use clawhost_core::descriptor::Granted;
use clawhost_core::error::exit;

use super::args::ToolsArgs;
use super::fail::{Fail, print_document};
use super::setup::{self, Purpose};
use super::show;
use crate::Host;
use crate::serve::status;

pub(super) async fn run(args: ToolsArgs) -> Result<u8, Fail> {
    let setup = setup::open(&args.paths, &args.places, Purpose::Look).await?;
    let catalog = setup.host.catalog();
    if args.json {
        show::json(&status::tools(&setup.host, &catalog, show::near));
    } else {
        show::line(&served(&setup.host, &catalog));
        catalog.refused.iter().for_each(tell);
    }
    Ok(code(&catalog))
}

/// Returns the exit code: a list is whole only where nothing was refused and every server has answered.
fn code(catalog: &Catalog) -> u8 {
    match (catalog.refused.is_empty(), catalog.loading.is_empty()) {
        (true, true) => exit::OK,
        (true, false) => exit::UPSTREAM,
        (false, _) => exit::DOCUMENT,
    }
}

/// Prints what was refused: wrong documents of components as `validate` does, the rest in a line.
fn tell(refused: &Refused) {
    refused.problems.iter().for_each(print_document);
    if refused.problems.is_empty() {
        eprintln!("{refused}");
    }
}

/// Returns the table of tools, then what was refused.
pub(super) fn table(host: &Host, catalog: &Catalog) -> String {
    let mut text = served(host, catalog);
    for refused in &catalog.refused {
        text.push_str(&format!("\n{refused}"));
    }
    text
}

fn served(host: &Host, catalog: &Catalog) -> String {
    let mut table = show::table(&["tool", "kind", "sandbox", "may touch", "policy"]);
    for tool in catalog.tools() {
        let grants = &tool.grants;
        table.add_row([
            &tool.definition.name,
            tool.origin.kind(),
            &grants.profile,
            &tool.calls().unwrap_or_else(|| show::touches(grants)),
            &told(host, tool),
        ]);
    }
    let mut text = table.trim_fmt();
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
    let agents = tool.managed.as_deref().and_then(Granted::agents);
    let agents = agents.map(|agents| format!("for {} only", agents.join(", ")));
    std::iter::once(host.standing(tool).name().to_owned())
        .chain(agents)
        .chain(rests)
        .collect::<Vec<_>>()
        .join("; ")
}
