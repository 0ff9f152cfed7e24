//! `clawhost compose`: checks composites, draws what they will do, and puts them into service.
//!
//! The file is read as if it lay among the definition files already, so that whatever would be wrong there
//! is said before it does. Deliberately absent: calling anything.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::Args;
use clawhost_core::catalog::{Catalog, ckp_name};
use clawhost_core::composite::{Composite, Step};
use clawhost_core::error::exit;
use clawhost_core::manifest::{DirEntry, DocumentError, Documents, Governance};
use serde_json::{Value, json};

use super::args::HostArgs;
use super::fail::{Blame as _, Fail, print_document};
use super::setup::{self, Purpose};
use super::show;
use crate::Host;
use crate::clock::whole_ms;
use crate::registry::FileDocuments;
use crate::regular;

/// Definition files hold no secret; the user's mask may take more away.
const MODE: u32 = 0o644;

/// Check composites, draw their steps, and register them
///
/// FILE is a definition file (`tools.<name>.composite`). Every tool that it calls has to be there, and to have
/// the arguments that it is given, by their names. The plan shows which steps run beside each other, and what each
/// takes from where. The file is then copied to the folder from which `definitions` of the runtime file reads
/// every `.yaml` file; a host that runs takes it in when it is told to read its files anew. The exit code is 3
/// where anything is wrong.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost compose report.yaml --manifest claw.yaml --dry-run")]
pub(super) struct ComposeArgs {
    /// The definition file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The manifest whose tools are called [default: claw.yaml, else the embedded default]
    #[arg(long, value_name = "MANIFEST")]
    manifest: Option<PathBuf>,
    #[command(flatten)]
    places: HostArgs,
    /// Take the place of another file of that name
    #[arg(long)]
    replace: bool,
    /// Check and draw, and register nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The files of this machine, and one more.
struct Beside {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Documents for Beside {
    fn read(&self, file: &Path) -> std::io::Result<Vec<u8>> {
        if file == self.path { Ok(self.bytes.clone()) } else { FileDocuments.read(file) }
    }

    /// The folders on the way to the file may still have to be made.
    fn list(&self, directory: &Path) -> std::io::Result<Vec<DirEntry>> {
        let found = FileDocuments.list(directory);
        let own = if directory == Path::new(".") { Path::new("") } else { directory };
        let below = self.path.strip_prefix(directory).or_else(|_| self.path.strip_prefix(own));
        let Ok(below) = below else { return found };
        let mut parts = below.iter();
        let Some(name) = parts.next().map(OsStr::to_owned) else { return found };
        let mut entries = found.unwrap_or_default();
        entries.retain(|entry| entry.name != name);
        entries.push(DirEntry { name, is_directory: parts.next().is_some() });
        Ok(entries)
    }
}

pub(super) async fn run(args: ComposeArgs) -> Result<u8, Fail> {
    let hint = "name a definition file with a composite in it";
    let bytes = setup::read_document(&args.file, hint)?;
    let names = composites(&args.file, &bytes)?;
    let paths = setup::with_default(&Vec::from_iter(args.manifest.clone()));
    let target = target(&args, &paths)?;
    let docs = Beside { path: target.clone(), bytes: bytes.clone() };
    let (manifest, settings) =
        setup::documents_from(&docs, &paths, &args.places).map_err(|all| {
            Fail::Documents(all.into_iter().map(|one| given(one, &target, &args.file)).collect())
        })?;
    let setup = setup::make(manifest, settings, &args.places, Purpose::Look).await?;
    let host = setup.host;
    let catalog = host.catalog();
    let wrong = catalog.refused.iter().filter(|refused| {
        refused.tool.as_ref().is_some_and(|tool| names.contains(&ckp_name(tool)))
    });
    let wrong: Vec<_> = wrong.collect();
    if !wrong.is_empty() {
        let problems = wrong.iter().flat_map(|refused| refused.problems.clone());
        problems.for_each(|one| print_document(&given(one, &target, &args.file)));
        let plain = wrong.iter().filter(|refused| refused.problems.is_empty());
        plain.for_each(|refused| eprintln!("{refused}"));
        return Ok(exit::DOCUMENT);
    }
    let unfit = unfit(&host, &names);
    if !unfit.is_empty() {
        unfit.into_iter().for_each(|one| print_document(&given(one, &target, &args.file)));
        return Ok(exit::DOCUMENT);
    }
    let registered = !args.dry_run && put(&target, &bytes, args.replace)?;
    report(&args, &host, &names, (&target, registered));
    Ok(exit::OK)
}

/// Returns what is wrong with the arguments that composites of these names give to tools.
fn unfit(host: &Host, names: &[String]) -> Vec<DocumentError> {
    let (catalog, manifest) = (host.catalog(), host.manifest());
    let schema = |tool: &str| catalog.find(tool).map(|tool| &tool.definition.input_schema);
    let all = manifest.governance.composites();
    let own = all.filter(|composite| names.contains(&ckp_name(&composite.name)));
    own.flat_map(|composite| composite.unfit(schema)).collect()
}

/// Returns a problem of the file where it is to lie as one of the file that was given.
fn given(problem: DocumentError, target: &Path, file: &Path) -> DocumentError {
    if Path::new(&problem.file) == target { problem.in_file(file) } else { problem }
}

/// Returns the CKP names of the composites of a file.
fn composites(file: &Path, bytes: &[u8]) -> Result<Vec<String>, Fail> {
    let mut own = Governance::default();
    own.read(file, bytes)?;
    let names: Vec<String> = own.composites().map(|composite| ckp_name(&composite.name)).collect();
    match names.is_empty() {
        true => Err(Fail::usage(
            format!("{} holds no composite", file.display()),
            "write `tools: { <name>: { composite: { steps: […] } } }`",
        )),
        false => Ok(names),
    }
}

/// Returns where the file is to lie.
fn target(args: &ComposeArgs, paths: &[PathBuf]) -> Result<PathBuf, Fail> {
    let settings = setup::config(paths, args.places.config.as_deref())?;
    let name = args
        .file
        .file_name()
        .filter(|name| Path::new(name).extension().is_some_and(|of| of == "yaml"));
    let folder = settings.definitions_folder();
    match (folder, name) {
        (Some(folder), Some(name)) => Ok(folder.join(name)),
        (None, _) => Err(Fail::usage(
            "the runtime file names no folder of definition files",
            "write `definitions: [\"definitions/*.yaml\"]` into clawhost.yaml",
        )),
        (_, None) => Err(Fail::usage(
            format!("{} is no `.yaml` file", args.file.display()),
            "give it a name that ends in `.yaml`",
        )),
    }
}

/// Writes the file as a whole or not at all; returns whether there was anything to do.
fn put(target: &Path, bytes: &[u8], replace: bool) -> Result<bool, Fail> {
    match std::fs::read(target) {
        Ok(there) if there == bytes => return Ok(false),
        Ok(_) if !replace => {
            let hint = "nothing is overwritten without --replace; --dry-run tries first";
            return Err(Fail::usage_at(target, "there is another file of that name", hint));
        }
        _ => {}
    }
    let folder = target.parent().unwrap_or_else(|| Path::new("."));
    let write = || {
        std::fs::create_dir_all(folder)?;
        let file = regular::beside(target, bytes, MODE)?;
        let put = if replace { file.persist(target) } else { file.persist_noclobber(target) };
        put.map_err(|error| error.error)
    };
    write().or_fail_at(exit::UPSTREAM, target).map(|_| true)
}

fn report(args: &ComposeArgs, host: &Host, names: &[String], (target, registered): (&Path, bool)) {
    let (catalog, manifest) = (host.catalog(), host.manifest());
    let all = manifest.governance.composites();
    let own = all.filter(|composite| names.contains(&ckp_name(&composite.name)));
    let plans: Vec<Plan<'_>> = own.map(|composite| Plan::of(composite, &catalog)).collect();
    if args.json {
        let plans = plans.iter().map(Plan::as_json);
        return show::json(&json!({
            "composites": Value::from_iter(plans), "file": target, "registered": registered,
        }));
    }
    plans.iter().for_each(|plan| show::line(&plan.as_text()));
    let shown = target.display();
    show::line(&match (args.dry_run, registered) {
        (true, _) => format!("sound; it would be registered as {shown}"),
        (_, true) => format!("registered as {shown}"),
        (_, false) => format!("{shown} is registered already"),
    });
}

/// What a composite will do.
struct Plan<'a> {
    composite: &'a Composite,
    catalog: &'a Catalog,
    waves: Vec<Vec<usize>>,
}

impl<'a> Plan<'a> {
    fn of(composite: &'a Composite, catalog: &'a Catalog) -> Self {
        Self { waves: composite.waves(|step| reads_only(catalog, step)), composite, catalog }
    }

    fn steps<'b>(&'b self, wave: &'b [usize]) -> impl Iterator<Item = (usize, &'a Step)> {
        wave.iter().filter_map(|index| Some((*index, self.composite.steps.get(*index)?)))
    }

    fn as_json(&self) -> Value {
        let waves = self
            .waves
            .iter()
            .map(|wave| self.steps(wave).map(|(_, step)| step.key.as_str()).collect::<Value>());
        json!({
            "name": self.composite.name, "waves": waves.collect::<Value>(),
            "timeout_ms": whole_ms(self.composite.timeout),
        })
    }

    /// Draws a line a step, with a bracket around those that run beside each other.
    fn as_text(&self) -> String {
        let mut lines = vec![self.composite.name.clone()];
        for wave in &self.waves {
            let last = wave.len().saturating_sub(1);
            for (at, (index, step)) in self.steps(wave).enumerate() {
                let joint = match (at, last) {
                    (0, 0) => "──",
                    (0, _) => "┬─",
                    (at, last) if at == last => "└─",
                    _ => "├─",
                };
                let arm = if at == 0 { "├" } else { "│" };
                lines.push(format!("  {arm}{joint} {}", self.step(index, step)));
            }
        }
        lines.push("  └─▶ the result of the last step\n".to_owned());
        lines.join("\n")
    }

    fn step(&self, index: usize, step: &Step) -> String {
        let keys = step.arguments.steps().into_iter().filter_map(|of| self.composite.steps.get(of));
        let mut keys: Vec<&str> = keys.map(|step| step.key.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        let takes =
            if keys.is_empty() { String::new() } else { format!(" ← {}", keys.join(", ")) };
        let reads = if reads_only(self.catalog, step) { ", reads" } else { "" };
        let times = step.max_attempts.map(|times| format!(", up to {times} times"));
        let ms = step.timeout.map(|time| format!(", {} ms", time.as_millis()));
        let (times, ms) = (times.unwrap_or_default(), ms.unwrap_or_default());
        let (number, key, tool) = (index + 1, &step.key, &step.tool);
        format!("{number} {key}: {tool}{takes}{reads}{times}{ms}")
    }
}

fn reads_only(catalog: &Catalog, step: &Step) -> bool {
    catalog.find(&step.tool).is_some_and(|tool| tool.declares("readOnlyHint"))
}
