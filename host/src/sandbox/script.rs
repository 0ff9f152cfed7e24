//! Command lines for the shell that is a component: held against the rules of the profile's shell
//! before the component sees them, as those for a jail are.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clawhost_core::grants::{Grants, Shell};
use clawhost_core::shell::{Machine, Refusal, ShellPolicy};
use serde_json::Value;

use crate::offload;

/// The argument that is the command line.
const LINE: &str = "command";
/// Where systems keep the programs that this shell has commands for.
const FOLDERS: [&str; 2] = ["/usr/bin/", "/bin/"];
/// What a restricted shell may run in a jail and this one has not: none of it is offered.
const ABSENT: [&str; 15] = [
    "cksum", "du", "expand", "file", "join", "ln", "md5sum", "od", "readlink", "sha1sum",
    "sha512sum", "sleep", "stat", "uname", "unexpand",
];

/// Returns the rules for scripts, where `grants` have a shell. What is not to run as a program is not
/// to run inside the sandbox either.
///
/// # Errors
/// A pattern that is none, or too large.
pub(super) fn policy(grants: &Grants) -> Result<Option<Arc<ShellPolicy>>, String> {
    let policy = || ShellPolicy::new(grants.any_shell(), &grants.shell_rules).map(Arc::new);
    (*grants.any_shell() != Shell::Deny).then(policy).transpose()
}

/// Returns `arguments` with what `policy` makes of their command line.
///
/// # Errors
/// What of the line is not allowed, or not decided by `ends_at`.
pub(super) fn admitted(
    policy: Option<&ShellPolicy>,
    arguments: &str,
    ends_at: Instant,
) -> Result<String, Refusal> {
    let Some(policy) = policy else { return Ok(arguments.to_owned()) };
    let mut given: Value = serde_json::from_str(arguments).unwrap_or_default();
    // The gate has held them against the schema; a line of nothing is the component's to refuse.
    let line = given.get_mut(LINE).filter(|it| it.as_str().is_some_and(|it| !it.trim().is_empty()));
    if let Some(Value::String(line)) = line {
        let machine = Machine { find: &find, is_over: &|| Instant::now() >= ends_at };
        // `/` is the first granted folder.
        let all = [Path::new("/")];
        *line = offload::blocking(true, || policy.line(line, &all, machine))?;
    }
    Ok(given.to_string())
}

/// Finds a command by its name: of others than those that have no list, the shell says which there are.
fn find(name: &str) -> Option<PathBuf> {
    let plain = FOLDERS.iter().find_map(|folder| name.strip_prefix(folder)).unwrap_or(name);
    let is_one = !plain.is_empty() && !plain.contains('/') && !ABSENT.contains(&plain);
    is_one.then(|| plain.into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clawhost_core::shell::ShellRules;
    use serde_json::json;

    use super::*;

    fn line(mode: &Shell, command: &str) -> Result<String, Refusal> {
        let blocked_patterns = vec!["rm +-rf".to_owned()];
        let rules = ShellRules { blocked_patterns, ..ShellRules::default() };
        let policy = ShellPolicy::new(mode, &rules).unwrap();
        let arguments = json!({"command": command, "timeout": 5}).to_string();
        let ends_at = Instant::now() + Duration::from_secs(60);
        let given = admitted(Some(&policy), &arguments, ends_at)?;
        let given: Value = serde_json::from_str(&given).unwrap();
        assert_eq!(given["timeout"], 5);
        Ok(given["command"].as_str().unwrap().to_owned())
    }

    #[test]
    fn a_line_is_written_anew_from_names_of_commands() {
        let restricted = |command| line(&Shell::Restricted, command);
        assert_eq!(restricted("/bin/cat \"a b\" | [ x ]").unwrap(), "'cat' 'a b' | '[' 'x' ']'");
        for refused in ["awk 1", "eval ls", ". ./x", "/opt/cat x", "cat $(x)", "rm -rf x", "ls\0"] {
            assert!(restricted(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_refusal_offers_what_the_shell_has_and_all_that_is_refused_for_it_is_absent() {
        const COMMANDS: &str = concat!(
            include_str!("../../../guest-tools/shell/src/commands/mod.rs"),
            include_str!("../../../guest-tools/shell/src/shell/builtins.rs")
        );
        let has = |name: &str| COMMANDS.contains(&format!("(\"{name}\", "));
        let why = line(&Shell::Restricted, "exit 3").unwrap_err().to_string();
        let (_, offered) = why.split_once("of the list: ").unwrap();
        let missing: Vec<_> = offered.split(", ").filter(|name| !has(name)).collect();
        assert!(offered.contains("cat, ") && missing.is_empty(), "{missing:?}");
        assert!(!ABSENT.iter().any(|name| has(name)));
        assert!(line(&Shell::Restricted, "file x").is_err());
    }

    #[test]
    fn any_line_is_searched_and_none_changed_where_all_are_allowed() {
        let free = "for x in *; do echo $(wc -l < $x); done";
        assert_eq!(line(&Shell::Full, free).unwrap(), free);
        assert!(line(&Shell::Full, "ls; rm  -rf x").is_err());
    }
}
