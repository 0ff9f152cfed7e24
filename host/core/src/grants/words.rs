//! What grants let a call touch, in words for people.

use std::path::Path;

use super::{Access, Grants, Injection, NATIVE, Shell};
use crate::egress::{EgressRules, HostRules, PORTS_DEFAULT};

impl Grants {
    /// Says in words what may be touched; `place` says what to call a folder.
    pub fn touches(&self, place: impl Fn(&Path) -> String) -> String {
        if self.native {
            return NATIVE.to_owned();
        }
        let mounts = self.mounts.iter().map(|mount| match mount.access {
            Access::ReadOnly => format!("reads {}", place(&mount.host)),
            Access::ReadWrite => format!("reads and writes {}", place(&mount.host)),
        });
        let mut parts: Vec<String> = mounts.collect();
        parts.extend(self.network.as_ref().map(network));
        parts.extend(self.secrets.iter().map(|secret| match secret.injection {
            Injection::HostBoundary => {
                format!("sends the secret {} to {}, unseen", secret.name, listed(&secret.hosts))
            }
            Injection::Environment | Injection::FileMount => {
                format!("reads the secret {}", secret.name)
            }
        }));
        parts.extend(self.provider.then(|| "asks the manifest's language models".to_owned()));
        parts.extend(self.agent.memory.then(|| "keeps keys and values for its agent".to_owned()));
        if !self.agent.channels.is_empty() {
            parts.push(format!("sends messages to {}", listed(&self.agent.channels)));
        }
        let calls = self.agent.tool_calls > 0;
        parts.extend(calls.then(|| "calls other tools as its agent may".to_owned()));
        parts.extend(match self.shell {
            Shell::Deny => None,
            Shell::Full => Some("runs programs in the jail".to_owned()),
            Shell::Restricted => Some("runs listed programs in the jail".to_owned()),
        });
        let has_shell = self.wasm_shell != Shell::Deny;
        parts.extend(has_shell.then(|| "runs scripts without starting a program".to_owned()));
        if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") }
    }
}

fn network(rules: &EgressRules) -> String {
    let inside = if rules.block_private { " outside private networks" } else { "" };
    let at = match rules.open_ports() {
        // Those of the web go without saying.
        open if open == PORTS_DEFAULT => String::new(),
        [port] => format!(" at port {port}"),
        open => format!(" at ports {}", listed(open)),
    };
    match &rules.hosts {
        HostRules::Any => format!("any host{inside}{at}"),
        HostRules::Only(hosts) if hosts.is_empty() => "no host".to_owned(),
        HostRules::Only(hosts) => format!("the hosts {}{inside}{at}", listed(hosts)),
    }
}

fn listed<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    all.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::HostPattern;

    #[test]
    fn of_ports_only_those_are_said_that_are_not_the_webs() {
        let hosts = vec![HostPattern::parse("example.com").unwrap()];
        for (hosts, block_private, ports, says) in [
            (HostRules::Any, true, vec![], "any host outside private networks"),
            (HostRules::Any, false, vec![80, 443], "any host"),
            (HostRules::Any, false, vec![443], "any host at port 443"),
            (
                HostRules::Only(hosts),
                true,
                vec![80, 8080],
                "the hosts example.com outside private networks at ports 80, 8080",
            ),
            (HostRules::Only(Vec::new()), false, vec![8080], "no host"),
        ] {
            let rules = EgressRules { block_private, ports, ..EgressRules::of(hosts) };
            assert_eq!(network(&rules), says);
        }
    }
}
