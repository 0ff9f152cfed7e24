//! `clawhost compile`: from a pod to what each of its agents has, all of it or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use clawhost_core::descriptor::{
    self, CompiledAgent, CompiledPod, PodSurroundings, SKILL_FILE, SKILLS_FOLDER,
};
use clawhost_core::error::exit;
use clawhost_core::names::Names;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::args::StateArgs;
use super::fail::Fail;
use super::{setup, show};
use crate::registry::FileDocuments;

/// The files of one agent, and who may read them: the page and skills are for the agent.
const TOOLS: (&str, u32) = (descriptor::TOOLS_FILE, 0o600);
const PAGE: (&str, u32) = ("CLAWDAPUS.md", 0o644);
const SKILL: (&str, u32) = (SKILL_FILE, 0o644);
/// Where they go, beside the pod.
const CONTEXT: &str = ".claw-runtime/context";

/// Compile a pod: which tools of services each of its agents has
///
/// For each agent of POD a folder in DIR gets `tools.json`, which `clawhost proxy --context DIR` reads, and
/// CLAWDAPUS.md, a page for the agent; the skills of its services go into `skills` there. No file holds a
/// token: each is named, and looked up when it is sent. DIR is made anew as a whole; where anything is wrong,
/// every problem is said and nothing changes.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: clawhost compile claw-pod.yml --out context --service api=http://127.0.0.1:4000"
)]
pub(super) struct CompileArgs {
    /// A Compose file with `x-claw` blocks
    #[arg(value_name = "POD")]
    pod: PathBuf,
    /// The folder to make; one of its own [default: .claw-runtime/context, beside the pod]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Where a service is, seen from here [default: its name and first port]
    #[arg(long, value_name = "NAME=URL", value_parser = address)]
    service: Vec<(String, String)>,
    /// Say what would be made, and make nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: StateArgs,
}

fn address(text: &str) -> Result<(String, String), String> {
    let wrong = || "write `trading-api=http://127.0.0.1:4000`".to_owned();
    let (name, url) = text.split_once('=').ok_or_else(wrong)?;
    Ok((name.to_owned(), url.to_owned()))
}

pub(super) fn run(args: &CompileArgs) -> Result<u8, Fail> {
    let secrets = setup::secrets_of(&args.common, args.dry_run)?;
    let addresses: BTreeMap<String, String> = args.service.iter().cloned().collect();
    let around = PodSurroundings {
        docs: &FileDocuments,
        addresses: &addresses,
        has_secret: &|name| secrets.resolve(name).is_ok(),
    };
    let CompiledPod { agents, notes } = descriptor::compile(&args.pod, &around)?;
    notes.iter().for_each(|note| tracing::warn!("{note}"));
    let out = args.out.clone().unwrap_or_else(|| args.pod.with_file_name(CONTEXT));
    check(&out)?;
    if !args.dry_run {
        replace(&out, &agents).map_err(|error| {
            Fail::new(exit::UPSTREAM, format!("{}: {error}; nothing has changed", out.display()))
        })?;
    }
    tell(args, &out, &agents);
    Ok(exit::OK)
}

fn tell(args: &CompileArgs, out: &Path, agents: &[CompiledAgent]) {
    if args.common.json {
        let names = agents.iter().map(|agent| (agent.name.clone(), tools(agent).into()));
        return show::json(&serde_json::Value::Object(names.collect()));
    }
    let mut table = show::table(&["agent", "tools", "folder"]);
    for agent in agents {
        let folder = out.join(&agent.name).display().to_string();
        table.add_row([&agent.name, &tools(agent).join("\n"), &folder]);
    }
    show::line(&table.trim_fmt());
}

/// Returns the names of its tools, as the agent and `clawhost tools` have them.
fn tools(agent: &CompiledAgent) -> Vec<String> {
    let tools = agent.file.iter().flat_map(|file| &file.tools);
    let tools: Vec<String> = tools.map(|(tool, _)| tool.canonical()).collect();
    let names = Names::new(tools.iter().map(String::as_str), []).unwrap_or_default();
    tools.iter().map(|tool| names.presented(tool).unwrap_or(tool).to_owned()).collect()
}

/// Returns the agents that a folder was compiled for, those without tools too.
pub(super) fn compiled(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let agents = entries.filter(|entry| entry.path().join(PAGE.0).is_file());
    agents.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Refuses a folder with anything in it that was not compiled: it is replaced as a whole.
fn check(out: &Path) -> Result<(), Fail> {
    stranger(out).map_or(Ok(()), |path| {
        let reason = format!("{} was not compiled, and its folder is made anew", path.display());
        Err(Fail::usage(reason, "name a folder of its own with --out"))
    })
}

/// Returns what is in the folder, or below it, and is no file of an agent.
fn stranger(out: &Path) -> Option<PathBuf> {
    let skill = |path: &Path| no_file(path, &[SKILL.0]);
    let skills = |folder: &Path| first(folder, |service| first(service, skill));
    first(out, |agent| {
        first(agent, |path| match path.ends_with(SKILLS_FOLDER) {
            true => skills(path),
            false => no_file(path, &[TOOLS.0, PAGE.0]),
        })
    })
}

/// Returns the first that `stranger` finds of what a folder holds. A link is none of ours, and neither is what
/// cannot be looked into: it is a file, say.
fn first(folder: &Path, stranger: impl Fn(&Path) -> Option<PathBuf>) -> Option<PathBuf> {
    let mut entries = match fs::read_dir(folder) {
        Ok(entries) => entries.filter_map(Result::ok).map(|entry| entry.path()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(_) => return Some(folder.to_owned()),
    };
    entries.find_map(|path| if path.is_symlink() { Some(path) } else { stranger(&path) })
}

/// Returns what is no file of one of these names.
fn no_file(path: &Path, names: &[&str]) -> Option<PathBuf> {
    let is_ours = !path.is_dir() && names.iter().any(|name| path.ends_with(name));
    (!is_ours).then(|| path.to_owned())
}

/// Makes all files beside `out`, and then lets them take its place in one step.
fn replace(out: &Path, agents: &[CompiledAgent]) -> io::Result<()> {
    let name = out.file_name().ok_or_else(|| io::Error::other("it is no name of a folder"))?;
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(folder)?;
    // A name that nobody else has: numbers of processes come again, as in containers with one folder.
    let prefix = format!(".{}.", name.to_string_lossy());
    let beside = tempfile::Builder::new().prefix(&prefix).tempdir_in(folder)?;
    let made = beside.path().join(name);
    write(&made, agents)?;
    // What is left there then is what was there before, and goes.
    match out.exists() {
        true => Ok(renameat_with(CWD, &made, CWD, out, RenameFlags::EXCHANGE)?),
        false => fs::rename(&made, out),
    }
}

fn write(folder: &Path, agents: &[CompiledAgent]) -> io::Result<()> {
    fs::create_dir(folder)?;
    for agent in agents {
        let own = folder.join(&agent.name);
        fs::create_dir(&own)?;
        if let Some(file) = &agent.file {
            write_file(&own, TOOLS, &file.to_text())?;
        }
        write_file(&own, PAGE, &agent.page)?;
        for (service, text) in &agent.skills {
            let skill = own.join(SKILLS_FOLDER).join(service);
            fs::create_dir_all(&skill)?;
            write_file(&skill, SKILL, text)?;
        }
    }
    fs::File::open(folder)?.sync_all()
}

fn write_file(folder: &Path, (name, mode): (&str, u32), text: &str) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(folder.join(name))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_of_the_same_number_left_when_it_was_killed_is_in_nobodys_way() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("context");
        let left = folder.path().join(format!(".context.{}", std::process::id()));
        fs::create_dir(&left).unwrap();
        for _ in 0..2 {
            replace(&out, &[]).unwrap();
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
            assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
        }
    }
}
