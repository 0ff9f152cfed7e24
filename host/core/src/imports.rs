//! Which imports a component may have: the one table of inert and privileged interfaces.
//!
//! A component's import list is its capability request. This table decides, before anything
//! of the component runs, whether a profile grants what it asks for.

use std::collections::BTreeSet;

use crate::grants::{Grants, Shell};
use crate::truncate;

/// The part of a name that a reason shows: it is as long as its author likes.
const NAME_SHOWN_BYTES_MAX: usize = 200;

/// What it takes to import an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Linked for every tool; no power by itself.
    Inert,
    /// Needs hosts in the profile's `network` block.
    Network,
    /// Needs the built-in profile `memory`, or `memory: true` for the profile in the runtime file.
    Memory,
    /// Needs channels for the profile in the runtime file.
    Channels,
    /// Needs the profile's `shell` block.
    Process,
    /// Needs `provider: true` for the profile in the runtime file.
    Provider,
    /// Needs secrets for the profile in the runtime file.
    Secrets,
    /// Needs the built-in profile `tools`, or `tool_calls_max` for the profile in the runtime file.
    Tools,
    /// Part of the contract, but no version of this host serves it yet.
    Reserved,
    /// Never granted: the tool would act past the host's checks.
    Never,
}

/// One row: an interface, or a whole package (`wasi:io/*`), and its class.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Interface without version; `/*` stands for all of a package.
    pub interface: &'static str,
    /// What it takes.
    pub class: Class,
    /// What nothing can do that does not import it, as "it can never" goes on; empty for what is no power.
    pub power: &'static str,
}

const fn row(interface: &'static str, class: Class, power: &'static str) -> Row {
    Row { interface, class, power }
}

/// Every interface a component may import; any other name is refused.
pub const TABLE: &[Row] = &[
    row("claw:tool/tool", Class::Inert, ""),
    row("claw:host/log", Class::Inert, ""),
    row("claw:host/progress", Class::Inert, ""),
    row("claw:host/cancellation", Class::Inert, ""),
    row("wasi:io/*", Class::Inert, ""),
    row("wasi:clocks/*", Class::Inert, "tell the time"),
    row("wasi:random/*", Class::Inert, "draw a random number"),
    row("wasi:cli/environment", Class::Inert, "read its environment"),
    row("wasi:cli/*", Class::Inert, ""),
    // Without a preopened directory, which only a profile's mounts give, nothing can be opened.
    row("wasi:filesystem/*", Class::Inert, "open a file"),
    row("wasi:http/types", Class::Network, ""),
    row("wasi:http/outgoing-handler", Class::Network, "send a request over the network"),
    row("wasi:http/client", Class::Network, "send a request over the network"),
    row("claw:host/process", Class::Process, "start a program"),
    row("claw:host/memory", Class::Memory, "keep keys and values"),
    row("claw:host/secrets", Class::Secrets, "ask for a secret"),
    row("claw:host/provider", Class::Provider, "ask a language model"),
    row("claw:host/models", Class::Provider, "choose a language model"),
    row("claw:host/channels", Class::Channels, "send a message"),
    row("claw:host/tools", Class::Tools, "call another tool"),
    row("claw:host/elicitation", Class::Reserved, ""),
    row("claw:host/resources", Class::Reserved, ""),
    row("claw:host/prompts", Class::Reserved, ""),
    row("wasi:sockets/*", Class::Never, "open a socket"),
];

/// The packages of the table that have versions, and what those that the host has begin with.
const VERSIONS: &[(&str, &[&str])] = &[("claw:", &["0.1."]), ("wasi:", &["0.2.", "0.3."])];

/// Says what a component can never do by itself, whatever it is granted: what it takes an import for that
/// it does not have. Each goes on after "it can never".
pub fn never(imports: &[String]) -> Vec<&'static str> {
    let is_there = |row: &&Row| imports.iter().any(|it| covers(row.interface, unversioned(it)));
    let mut said = BTreeSet::from([""]);
    said.extend(TABLE.iter().filter(is_there).map(|row| row.power));
    TABLE.iter().map(|row| row.power).filter(|power| said.insert(power)).collect()
}

/// Returns the class of an import such as `wasi:io/streams@0.2.12`, or none where no row
/// knows it, or the host has it in another version only.
pub fn class_of(import: &str) -> Option<Class> {
    row_of(import).filter(|_| !is_of_another_version(import)).map(|row| row.class)
}

fn row_of(import: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| covers(row.interface, unversioned(import)))
}

/// Says whether an import has a version that cannot be linked: an early one (`-rc`) stands for itself alone.
fn is_of_another_version(import: &str) -> bool {
    let Some((_, version)) = import.split_once('@') else { return false };
    let known = VERSIONS.iter().find(|(package, _)| import.starts_with(package));
    known.is_some_and(|(_, all)| {
        version.contains('-') || !all.iter().any(|it| version.starts_with(it))
    })
}

/// Returns what of a component's imports takes something of a profile, without versions and in order. So do two that
/// are linked for every tool: through them it has the profile's mounts and variables.
pub fn needs<'a>(imports: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let given = |name: &str| {
        ["wasi:filesystem/*", "wasi:cli/environment"].iter().any(|it| covers(it, name))
    };
    let takes = |name: &&str| class_of(name) != Some(Class::Inert) || given(name);
    imports.map(unversioned).filter(takes).collect()
}

fn unversioned(import: &str) -> &str {
    import.split_once('@').map_or(import, |(name, _)| name)
}

fn covers(pattern: &str, interface: &str) -> bool {
    match pattern.strip_suffix("/*") {
        Some(package) => interface.split_once('/').is_some_and(|(name, _)| name == package),
        None => pattern == interface,
    }
}

/// Checks that this host can serve every import of a component, under whichever profile.
///
/// # Errors
/// One sentence for each import that no profile can grant, or for the first of very many; those of sockets have
/// one together.
pub fn servable<'a>(imports: impl Iterator<Item = &'a str>) -> Result<(), Vec<String>> {
    let mut sockets_told = false;
    collect(imports.filter_map(|import| {
        let why = match class_of(import) {
            Some(Class::Reserved) => "the interface is reserved, and this version of the host does not serve it",
            Some(Class::Never) if sockets_told => return None,
            Some(Class::Never) => {
                sockets_told = true;
                "raw sockets would go past the host's checks; use `wasi:http` under a network profile, and with componentize-py `--stub-wasi`"
            }
            None if row_of(import).is_some() => {
                "the host has version 0.1 of `claw:…`, and of `wasi:…` 0.2, and 0.3 where it is built for that"
            }
            None => "no such interface is known to this host",
            Some(_) => return None,
        };
        Some(format!("it imports `{}`, which no profile grants: {why}", shown(import)))
    }))
}

/// Checks that `grants` cover every import of a component.
///
/// # Errors
/// One sentence for each import that is not covered, or for the first of very many, naming it,
/// the profile, and what would be right.
pub fn check<'a>(
    imports: impl Iterator<Item = &'a str> + Clone,
    grants: &Grants,
) -> Result<(), Vec<String>> {
    servable(imports.clone())?;
    let profile = &grants.profile;
    collect(imports.filter_map(|import| {
        let needs = match class_of(import) {
            Some(Class::Network) if grants.network.is_none() => {
                "bind it to a profile whose `network.mode` is `allowlist` or `allow-all`"
            }
            Some(Class::Process) if grants.wasm_shell != Shell::Deny => {
                "its shell runs inside the sandbox (`level: wasm`), which has `exec_shell` and starts no program; write `level: process` for a jail"
            }
            Some(Class::Process) if grants.shell == Shell::Deny => {
                "bind it to a profile whose `shell.mode` is `restricted` or `full`"
            }
            Some(Class::Memory) if !grants.agent.memory => {
                "bind it to the profile `memory`, or write `memory: true` for the profile under `profiles` of clawhost.yaml"
            }
            Some(Class::Channels) if grants.agent.channels.is_empty() => {
                "list the channels it may send to for the profile under `profiles` of clawhost.yaml"
            }
            Some(Class::Provider) if !grants.provider => {
                "write `provider: true` for the profile under `profiles` of clawhost.yaml"
            }
            Some(Class::Secrets) if grants.secrets.is_empty() => {
                "list the secrets it may use for the profile under `profiles` of clawhost.yaml"
            }
            Some(Class::Tools) if grants.agent.tool_calls == 0 => {
                "bind it to the profile `tools`, or write `tool_calls_max` for the profile under `profiles` of clawhost.yaml"
            }
            _ => return None,
        };
        Some(format!(
            "it imports `{}`, which the profile `{profile}` does not grant: {needs}",
            shown(import)
        ))
    }))
}

fn collect(refused: impl Iterator<Item = String>) -> Result<(), Vec<String>> {
    let told = truncate::reasons(refused);
    if told.is_empty() { Ok(()) } else { Err(told) }
}

fn shown(import: &str) -> &str {
    truncate::text(import, NAME_SHOWN_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::AgentGrants;

    #[test]
    fn what_takes_an_import_that_is_not_there_can_never_be_done() {
        let all = never(&[]);
        // Two versions of WASI send requests by two interfaces.
        assert_eq!(all.len() + 1, TABLE.iter().filter(|row| !row.power.is_empty()).count());
        assert_eq!(never(&["wasi:http/client@0.3.0".to_owned()]).len(), all.len() - 1);
        let imports = ["wasi:filesystem/types@0.2.12", "wasi:cli/stdin@0.2.12"];
        let files = never(&imports.map(str::to_owned));
        let is_open: Vec<_> = all.iter().filter(|power| !files.contains(power)).collect();
        assert_eq!(is_open, [&"open a file"]);
    }

    #[test]
    fn what_takes_something_of_a_profile_is_a_need() {
        let imports = ["wasi:cli/stdout@0.2.12", "wasi:clocks/wall-clock", "claw:host/log@0.1.0"];
        assert!(needs(imports.into_iter()).is_empty());
        let imports = ["wasi:cli/environment@0.2.12", "wasi:filesystem/types", "x:y/z@1.0.0"];
        let own = ["wasi:cli/environment", "wasi:filesystem/types", "x:y/z"];
        assert!(needs(imports.into_iter()).into_iter().eq(own));
    }

    #[test]
    fn an_import_of_another_version_is_told_which_there_are() {
        for import in [
            "claw:host/log@0.2.0",
            "wasi:io/poll@0.4.0",
            "wasi:io/streams@0.2.0-rc-2023-11-10",
            "wasi:cli/stdout@1.0.0",
        ] {
            assert_eq!(class_of(import), None, "{import}");
            let reasons = servable([import].into_iter()).unwrap_err();
            assert!(
                reasons[0].contains(import) && reasons[0].contains("version 0.1"),
                "{reasons:?}"
            );
        }
        for import in
            ["claw:host/log@0.1.7", "wasi:io/poll@0.2.99", "wasi:io/poll", "wasi:cli/stdout@0.3.0"]
        {
            assert_eq!(class_of(import), Some(Class::Inert), "{import}");
        }
    }

    #[test]
    fn what_brings_all_of_the_sockets_is_told_of_them_once() {
        let imports = ["wasi:sockets/tcp@0.2.9", "wasi:sockets/udp@0.2.9", "x:y/z"];
        let reasons = servable(imports.into_iter()).unwrap_err();
        assert_eq!(reasons.len(), 2, "{reasons:?}");
        assert!(reasons[0].contains("wasi:sockets/tcp") && reasons[1].contains("x:y/z"));
    }

    #[test]
    fn a_refusal_of_very_many_imports_or_of_a_very_long_one_is_short() {
        let many = vec!["a:b"; 100_000];
        let reasons = servable(many.into_iter()).unwrap_err();
        assert_eq!(reasons.last().unwrap(), "and 99990 more");
        let long = "x".repeat(100_000);
        for refused in
            [servable([&*long].into_iter()), check([&*long].into_iter(), &Grants::default())]
        {
            assert!(refused.unwrap_err().concat().len() < 500);
        }
    }

    #[test]
    fn an_import_the_profile_does_not_grant_refuses_the_tool() {
        let none = Grants { profile: "none".into(), ..Grants::default() };
        let inert =
            ["wasi:io/streams@0.2.6", "claw:host/log@0.1.0", "wasi:filesystem/types@0.2.12"];
        assert!(check(inert.into_iter(), &none).is_ok());
        for import in [
            "wasi:http/types@0.2.12", "claw:host/process@0.1.0", "claw:host/provider@0.1.0",
            "claw:host/models@0.1.0", "claw:host/memory@0.1.0", "claw:host/channels@0.1.0",
            "claw:host/secrets@0.1.0", "claw:host/tools@0.1.0",
        ] {
            let reasons = check([import].into_iter(), &none).unwrap_err();
            assert!(reasons[0].contains(import) && reasons[0].contains("`none`"), "{reasons:?}");
        }
        for import in [
            "wasi:sockets/tcp@0.2.0",
            "claw:host/elicitation@0.1.0",
            "evil:host/all",
            "wasi:http/incoming-handler@0.2.0",
            "wasi:iox/streams",
            "wasi:keyvalue/store@0.2.0-draft",
            "",
        ] {
            let reasons = check([import].into_iter(), &none).unwrap_err();
            assert!(
                reasons[0].contains(import) && reasons[0].contains("no profile"),
                "{reasons:?}"
            );
        }
        let provider = Grants { provider: true, ..Grants::default() };
        assert!(check(["claw:host/provider@0.1.0"].into_iter(), &provider).is_ok());
        assert!(check(["claw:host/models@0.1.0"].into_iter(), &provider).is_ok());
        let agent = AgentGrants { memory: true, ..AgentGrants::default() };
        let memory = Grants { agent, ..Grants::default() };
        assert!(check(["claw:host/memory@0.1.0"].into_iter(), &memory).is_ok());
        assert!(check(["claw:host/channels@0.1.0"].into_iter(), &memory).is_err());
        let agent = AgentGrants { tool_calls: 1, ..AgentGrants::default() };
        let tools = Grants { agent, ..Grants::default() };
        assert!(check(["claw:host/tools@0.1.0"].into_iter(), &tools).is_ok());
        let shell = Grants { shell: Shell::Full, ..Grants::default() };
        assert!(check(["claw:host/process@0.1.0"].into_iter(), &shell).is_ok());
    }
}
