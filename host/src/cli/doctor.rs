//! `clawhost doctor`: what this machine can give, and whether that is enough for a manifest.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use clawhost_core::catalog::{Catalog, Refused};
use clawhost_core::error::exit;
use clawhost_core::grants::Shell;
use clawhost_core::manifest::{Manifest, McpReach, McpSource, Settings};
use clawhost_core::visible;
use serde_json::{Value, json};

use super::args::HostArgs;
use super::fail::Fail;
use super::setup::{self, Purpose};
use super::show;
use crate::clock;
use crate::engine::compiler::{Compiler, NoCode};
use crate::engine::{self, Allocator, Engine};
use crate::jail::{self, Support};
use crate::secrets::Secrets;
use crate::state::{CACHE_OPTION, FolderEnv, STATE_OPTION, StateDir, cache_folder, own_folder};

/// Say what this machine can give, and whether it is enough for a manifest
///
/// Looks at the jail of native programs, the memory of instances, the compiler, the folders and the clock, and makes a
/// host as `run` would, without serving. The exit code is 6 where a tool is refused, or something is missing that the documents, or the embedded default, cannot do without;
/// what is only weaker than it could be is said and is no error.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost doctor host/examples/manifest.yaml --json")]
pub(super) struct DoctorArgs {
    /// Manifests, documents, or directories of them
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    places: HostArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The beginning of every component, and all of the smallest one.
const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

/// How one thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// As good as it gets.
    Good,
    /// Works, and could be better.
    Weaker,
    /// Something needs it and does not get it.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug)]
struct Finding {
    about: &'static str,
    standing: Standing,
    says: String,
}

pub(super) async fn run(args: DoctorArgs) -> Result<u8, Fail> {
    let paths = setup::with_default(&args.paths);
    let (manifest, settings) = setup::documents(&paths, &args.places)?;
    let mut findings = look(&manifest, &settings, &args.places).await;
    // Without a state folder there are none, which is among what was found.
    if let Ok(secrets) = setup::opened_secrets(&settings, args.places.state.as_deref()) {
        findings.extend(lacking(&secrets, manifest.secrets()));
    }
    // A host that cannot be made for what was found so far says nothing more.
    match setup::make(manifest, settings, &args.places, Purpose::Look).await {
        Ok(setup) => findings.extend(unserved(&setup.host.catalog())),
        Err(_) if !is_enough(&findings) => {}
        Err(fail) => findings.push(missing("host", fail.reason())),
    }
    show::done(args.json, || as_json(&findings), || table(&findings))?;
    Ok(if is_enough(&findings) { exit::OK } else { exit::UPSTREAM })
}

fn is_enough(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.standing != Standing::Missing)
}

fn missing(about: &'static str, says: String) -> Finding {
    Finding { about, standing: Standing::Missing, says }
}

/// What a host for these documents would not serve, or not at once.
fn unserved(catalog: &Catalog) -> Vec<Finding> {
    let silent = |of: &String| format!("{} has not said yet what it has", visible::line(of));
    let says =
        catalog.refused.iter().map(Refused::to_string).chain(catalog.loading.iter().map(silent));
    says.map(|says| missing("tool", says)).collect()
}

/// The secrets that tools, servers and services would not get.
fn lacking<'n>(
    secrets: &Secrets,
    names: impl Iterator<Item = &'n str>,
) -> impl Iterator<Item = Finding> {
    let errors =
        BTreeSet::from_iter(names).into_iter().filter_map(|name| secrets.resolve(name).err());
    errors.map(|error| missing("secret", error.to_string()))
}

async fn look(manifest: &Manifest, settings: &Settings, places: &HostArgs) -> Vec<Finding> {
    let mut findings = jail(jail::support(), &tools_with_shell(manifest));
    findings.extend([instances(settings), pages(), compiler().await]);
    findings.extend([state(settings, places), cache(), time()]);
    findings
}

/// Returns the tools and MCP servers that cannot run without a jail.
fn tools_with_shell(manifest: &Manifest) -> Vec<&str> {
    let has_shell = |profile: &str| {
        manifest.profile(profile).is_some_and(|profile| profile.shell != Shell::Deny)
    };
    let is_program = |source: &McpSource| source.endpoint.program().is_some();
    let tools = manifest
        .tools
        .iter()
        .filter(|tool| has_shell(&tool.sandbox) || tool.mcp.as_ref().is_some_and(is_program));
    let servers = manifest.mcp_servers.iter();
    let servers = servers.filter(|one| matches!(one.reach, McpReach::Program { .. }));
    let tools = tools.map(|tool| tool.name.as_str());
    tools.chain(servers.map(|server| server.name.as_str())).collect()
}

/// Returns what is said of one part of a jail, which is there or not.
fn part(about: &'static str, is_there: bool, or: Standing, [yes, no]: [&str; 2]) -> Finding {
    let standing = if is_there { Standing::Good } else { or };
    Finding { about, standing, says: if is_there { yes } else { no }.to_owned() }
}

/// What a jail is made of, each with what it is for.
fn jail(support: Support, needed_by: &[&str]) -> Vec<Finding> {
    let or = if needed_by.is_empty() { Standing::Weaker } else { Standing::Missing };
    let lacks = match needed_by.is_empty() {
        true => format!("{support}; tools that run native programs would be refused"),
        false => format!("{support}; refused: {}", needed_by.join(", ")),
    };
    let is = support.to_string();
    let calls = ["system calls are filtered", "none: system calls could not be filtered"];
    let mut parts = vec![
        part("jail", support.available(), or, [&is, &lacks]),
        landlock(support.landlock_abi, or),
        part("seccomp", support.seccomp, or, calls),
    ];
    parts.extend(around(support));
    parts
}

fn landlock(abi: u32, or: Standing) -> Finding {
    let (standing, says) = match abi {
        0 => (or, "none: files could not be protected".to_owned()),
        1..6 => {
            let says = "files; signals and abstract sockets from ABI 6 up";
            (Standing::Weaker, format!("ABI {abi}: {says}"))
        }
        _ => (Standing::Good, format!("ABI {abi}: files, signals and abstract sockets")),
    };
    Finding { about: "Landlock", standing, says }
}

/// What makes a jail better where it is there.
fn around(support: Support) -> [Finding; 3] {
    let processes = match support.user_namespace {
        true => "processes over a whole jail",
        false => "processes for all jails of a user together, more than a profile allows one",
    };
    let no_group =
        format!("none that the host may make: memory is bounded for each process, {processes}");
    let no_process_ids = match support.landlock_abi {
        0..6 => {
            "none: a jail is ended as a process group, and a program signals all of it or nothing"
        }
        _ => "none: a jail is ended as a process group",
    };
    let better = |about, is_there, says| part(about, is_there, Standing::Weaker, says);
    [
        better(
            "process namespace",
            support.pid_namespace,
            ["a jail ends as one, also when the host is killed", no_process_ids],
        ),
        better(
            "mount namespace",
            support.mount_namespace,
            [
                "paths that are not granted are not there, and nothing of a read-only mount changes",
                "none: a program may `stat` any path, and change mode and times of its user's files that it can open",
            ],
        ),
        better(
            "control group",
            support.cgroup,
            ["memory and processes are bounded over a whole jail", &no_group],
        ),
    ]
}

fn instances(settings: &Settings) -> Finding {
    let engine = Engine::new(settings.limits.calls_running_max, None);
    let (standing, says) = match engine.as_ref().map(Engine::allocator) {
        Ok(Allocator::Pool) => (Standing::Good, "a pool of prepared memory".to_owned()),
        Ok(Allocator::OnDemand) => {
            let says = "no address space for a pool (`ulimit -v`, overcommit): calls take longer";
            (Standing::Weaker, says.to_owned())
        }
        Err(error) => (Standing::Missing, format!("no engine: {error}")),
    };
    Finding { about: "instances", standing, says }
}

fn pages() -> Finding {
    let (standing, says) = match engine::given_back() {
        None => {
            (Standing::Good, "instances keep their memory; what a call wrote is reset".to_owned())
        }
        Some(why) => {
            let says = format!("{why}: instances give their memory back, which takes longer");
            (Standing::Weaker, says)
        }
    };
    Finding { about: "memory pages", standing, says }
}

/// Has a component compiled as tools are.
async fn compiler() -> Finding {
    let made = match setup::compiler().map(Compiler::new) {
        Ok(compiler) => compiler.code(EMPTY_COMPONENT, false).await,
        Err(why) => Err(NoCode::Absent(why)),
    };
    let (standing, says) = match made {
        Ok(_) => {
            (Standing::Good, "a process of its own, in a jail that is granted nothing".to_owned())
        }
        Err(NoCode::Absent(why)) => (Standing::Weaker, format!("the host itself: {why}")),
        Err(NoCode::Refused(error)) => (Standing::Missing, error.to_string()),
    };
    Finding { about: "compiler", standing, says }
}

fn state(settings: &Settings, places: &HostArgs) -> Finding {
    let folder = places.state.as_deref().or(settings.state.as_deref());
    let opened = StateDir::open(folder, &FolderEnv::from_process());
    kept(opened.map_err(|error| error.to_string()).map(|state| state.path().to_owned()))
}

/// Says how the state folder stands: nothing is called where nothing can be recorded.
fn kept(opened: Result<PathBuf, String>) -> Finding {
    let written = opened.and_then(|folder| {
        writable(folder).map_err(|why| format!("{why}; name another one with {STATE_OPTION}"))
    });
    let (standing, says) = match written {
        Ok(folder) => (Standing::Good, format!("{} is private", folder.display())),
        Err(why) => (Standing::Missing, why),
    };
    Finding { about: "state folder", standing, says }
}

fn cache() -> Finding {
    let opened = cache_folder(&FolderEnv::from_process())
        .and_then(|folder| own_folder(&folder, CACHE_OPTION));
    let (standing, says) = match opened.map_err(|error| error.to_string()).and_then(writable) {
        Ok(cache) => (Standing::Good, format!("{} is private", cache.display())),
        Err(why) => (Standing::Weaker, format!("components are compiled at each start: {why}")),
    };
    Finding { about: "cache folder", standing, says }
}

/// Returns the folder, if something can be put into it.
fn writable(folder: PathBuf) -> Result<PathBuf, String> {
    match rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK) {
        Ok(()) => Ok(folder),
        Err(error) => Err(format!("{} cannot be written: {error}", folder.display())),
    }
}

/// The first second of 2026: a clock that stands before this host was made is wrong.
const CLOCK_MS_MIN: i64 = 1_767_225_600_000;

fn time() -> Finding {
    let now = clock::now_ms();
    let (standing, what) = match now >= CLOCK_MS_MIN {
        true => (Standing::Good, ""),
        false => (Standing::Weaker, ", which is wrong: certificates and leases go by it"),
    };
    Finding { about: "clock", standing, says: format!("{}{what}", clock::rfc3339(now)) }
}

fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Good => "good",
        Standing::Weaker => "weaker",
        Standing::Missing => "MISSING",
    }
}

fn table(findings: &[Finding]) -> String {
    let mut table = show::table(&["part", "state", "what it means"]);
    for finding in findings {
        table.add_row([finding.about, word(finding.standing), &finding.says]);
    }
    table.trim_fmt()
}

fn as_json(findings: &[Finding]) -> Value {
    let rows = findings.iter().map(|finding| {
        let standing = word(finding.standing).to_ascii_lowercase();
        json!({"about": finding.about, "standing": standing, "says": finding.says})
    });
    json!({"enough": is_enough(findings), "findings": Value::from_iter(rows)})
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Support = Support {
        landlock_abi: 7,
        seccomp: true,
        pid_namespace: true,
        mount_namespace: true,
        user_namespace: true,
        cgroup: true,
        other_user: false,
    };

    fn standings(support: Support, needed_by: &[&str]) -> Vec<Standing> {
        jail(support, needed_by).iter().map(|finding| finding.standing).collect()
    }

    #[test]
    fn a_secret_that_is_nowhere_is_missing_and_told_once() {
        let secrets = Secrets::of_environment(|name| (name == "KEPT").then(|| "value".into()));
        let told: Vec<_> = lacking(&secrets, ["GONE", "KEPT", "GONE"].into_iter()).collect();
        assert_eq!((told.len(), told[0].standing), (1, Standing::Missing));
        assert!(told[0].says.contains("GONE"), "{}", told[0].says);
    }

    #[test]
    fn a_folder_that_takes_nothing_is_told() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(writable(folder.path().to_owned()).as_deref(), Ok(folder.path()));
        let why = writable(folder.path().join("gone")).unwrap_err();
        assert!(why.contains("gone cannot be written: "), "{why}");
        let told = kept(Ok(folder.path().join("gone")));
        assert_eq!(told.standing, Standing::Missing);
        assert!(told.says.ends_with("; name another one with --state DIR"), "{}", told.says);
        assert_eq!(kept(Ok(folder.path().to_owned())).standing, Standing::Good);
    }

    #[test]
    fn a_server_that_does_not_answer_is_missing() {
        let mut catalog = Catalog::new(1);
        catalog.loading.push("the MCP server `slow`".to_owned());
        catalog.refused.push(Refused::new("a.wasm", "it is broken"));
        let found = unserved(&catalog);
        assert!(
            found.iter().all(|finding| finding.standing == Standing::Missing) && !is_enough(&found)
        );
        let said = found.iter().map(|finding| finding.says.as_str()).collect::<Vec<_>>();
        assert_eq!(
            said,
            ["refused: a.wasm: it is broken", "the MCP server `slow` has not said yet what it has"]
        );
    }

    #[test]
    fn what_a_tool_needs_and_does_not_get_is_missing() {
        use Standing::{Good, Missing, Weaker};
        assert_eq!(standings(WHOLE, &["exec-shell"]), [Good; 6]);
        let none = Support::default();
        assert_eq!(
            standings(none, &["exec-shell"]),
            [Missing, Missing, Missing, Weaker, Weaker, Weaker]
        );
        assert!(jail(none, &["exec-shell"])[0].says.contains("refused: exec-shell"));
        assert_eq!(standings(none, &[]), [Weaker; 6]);
        let old = Support { landlock_abi: 1, seccomp: true, ..none };
        assert_eq!(standings(old, &["exec-shell"])[..2], [Good, Weaker]);
        assert_eq!(standings(old, &["exec-shell"])[2..], [Good, Weaker, Weaker, Weaker]);
        let signals = |support| jail(support, &[])[3].says.contains("all of it or nothing");
        assert!(signals(old) && !signals(Support { landlock_abi: 6, ..old }) && !signals(WHOLE));
        let counts = |support| jail(support, &[])[5].says.contains("processes over a whole jail");
        assert!(counts(Support { user_namespace: true, ..old }) && !counts(old));
    }
}
