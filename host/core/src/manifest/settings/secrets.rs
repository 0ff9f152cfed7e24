//! `profiles.<name>.secrets`: which secrets the tools of a profile may use, and where.

use super::reader::Reader;
use crate::egress::HostPattern;
use crate::grants::{Injection, SecretGrant, is_secret_name, is_variable_name};
use crate::manifest::Profile;
use crate::manifest::node::{Node, Place};
use crate::manifest::problem::Problems;
use crate::manifest::shape::shown;

/// One of `profiles.<name>.secrets`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretSettings {
    /// The name it is looked up under.
    pub name: String,
    /// The variable of the tool's environment; the name where the file does not say.
    pub env: String,
    /// The hosts it may be sent to.
    pub hosts: Vec<HostPattern>,
    at: Place,
}

impl Reader {
    pub(super) fn take_secrets(&mut self, list: &[Node]) -> Vec<SecretSettings> {
        let mut secrets: Vec<SecretSettings> = Vec::new();
        for item in list {
            let secret = self.take_secret(item);
            if secrets.iter().any(|other| other.env == secret.env) {
                let reason = format!("two secrets in the variable `{}`", shown(&secret.env));
                let help = "give each a variable of its own with `env`";
                self.refuse(&item.at, reason, help);
            }
            secrets.push(secret);
        }
        secrets
    }

    fn take_secret(&mut self, item: &Node) -> SecretSettings {
        let name = item.text(&["name"]).unwrap_or_default().to_owned();
        let env = item.text(&["env"]).unwrap_or(&name).to_owned();
        if !is_variable_name(&env) && (is_secret_name(&name) || item.entry("env").is_some()) {
            let reason = format!("`{}` is no environment variable", shown(&env));
            let help = "write `env:` with letters, digits and `_`, the first no digit";
            self.refuse(&item.at, reason, help);
        }
        let hosts = self.take_hosts(item, &["hosts"]);
        SecretSettings { name, env, hosts, at: item.at.clone() }
    }
}

impl SecretSettings {
    /// Grants the secret to `profile`, whose environment is already there.
    pub(super) fn apply(&self, profile: &mut Profile, problems: &mut Problems) {
        match self.objection(profile) {
            Some((reason, help)) => problems.invalid(&self.at, reason, help),
            None => profile.secrets.push(SecretGrant {
                name: self.name.clone(),
                env: self.env.clone(),
                hosts: self.hosts.clone(),
                injection: profile.injection,
            }),
        }
    }

    /// Says why `profile` cannot have it, and what would help.
    fn objection(&self, profile: &Profile) -> Option<(String, &'static str)> {
        let (secret, of) = (&self.name, &profile.name);
        if profile.env.contains_key(&self.env) {
            let reason = format!("the variable `{}` is in `env` too", self.env);
            return Some((reason, "leave it out of `env`: a secret does not stand in a file"));
        }
        if profile.injection != Injection::HostBoundary {
            let reason = format!("`hosts` for the secret `{secret}`, which the tool itself gets");
            let help = "leave `hosts` out, or give the profile's document `secrets.injection: host-boundary`";
            return (!self.hosts.is_empty()).then_some((reason, help));
        }
        if self.hosts.is_empty() {
            let reason = format!("the secret `{secret}` is bound to no host");
            return Some((reason, "write `hosts:` with the hosts it may be sent to"));
        }
        let reached =
            |host: &&HostPattern| profile.network.as_ref().is_some_and(|rules| rules.covers(host));
        let host = self.hosts.iter().find(|host| !reached(host))?;
        let reason = format!(
            "the secret `{secret}` is for `{host}`, which the profile `{of}` does not reach"
        );
        Some((reason, "name hosts that `network.allowed_hosts` of the profile's document has"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tests::read_body;
    use super::*;
    use crate::manifest::builtin_profiles;

    /// Gives the built-in profile `name`, changed by `change`, these secrets.
    fn granted(
        secrets: &str,
        name: &str,
        change: fn(&mut Profile),
    ) -> Result<Vec<SecretGrant>, String> {
        let text = format!("profiles: {{x: {{env: {{PLAIN: p}}, secrets: {secrets}}}}}");
        let settings = read_body(&text, &[])?;
        let mut profile = builtin_profiles(Path::new("/here")).unwrap().remove(name).unwrap();
        change(&mut profile);
        let mut problems = Problems::default();
        settings.profiles["x"].apply(&mut profile, &mut problems);
        let done = problems.finish(Some(profile.grants(None).secrets));
        done.map_err(|errors| errors[0].one_line())
    }

    #[test]
    fn a_secret_is_granted_for_its_hosts_under_its_own_name() {
        let granted = granted("[{name: A, hosts: [API.test, '*.b.test']}]", "network", |_| ());
        let granted = granted.unwrap().remove(0);
        let hosts: Vec<String> = granted.hosts.iter().map(ToString::to_string).collect();
        assert_eq!((granted.name.as_str(), granted.env.as_str()), ("A", "A"));
        assert_eq!(hosts, ["api.test", "*.b.test"]);
        assert_eq!(granted.injection, Injection::HostBoundary);
    }

    #[test]
    fn a_tool_that_gets_the_value_itself_is_bound_to_no_host() {
        let inside = |profile: &mut Profile| profile.injection = Injection::Environment;
        let secrets = granted("[{name: a-b, env: AB}]", "none", inside).unwrap();
        assert_eq!((secrets[0].env.as_str(), secrets[0].injection), ("AB", Injection::Environment));
        let bound = granted("[{name: A, hosts: [a.test]}]", "none", inside).unwrap_err();
        assert!(bound.contains("`hosts` for the secret `A`"), "{bound}");
    }

    #[test]
    fn what_would_not_hold_is_refused() {
        let listed = |profile: &mut Profile| {
            let only = HostPattern::parse("*.a.test").unwrap();
            let rules = profile.network.as_mut().unwrap();
            rules.hosts = crate::egress::HostRules::Only(vec![only]);
        };
        for (secrets, name, change, expected) in [
            ("[{name: A}]", "network", (|_| ()) as fn(&mut Profile), "is bound to no host"),
            ("[{name: A, hosts: []}]", "network", |_| (), "is bound to no host"),
            ("[{name: A, hosts: [a.test]}]", "none", |_| (), "`none` does not reach"),
            ("[{name: A, hosts: [x.a.test, a.test]}]", "network", listed, "for `a.test`"),
            ("[{name: A, env: PLAIN, hosts: [a.test]}]", "network", |_| (), "is in `env` too"),
        ] {
            let error = granted(secrets, name, change).unwrap_err();
            assert!(error.contains(expected), "{secrets}: {error}");
        }
        assert_eq!(granted("[{name: A, hosts: [x.a.test]}]", "network", listed).unwrap().len(), 1);
    }
}
