//! Which secrets a call may use, and how they reach it. The values are not here.

use serde::Deserialize;

use crate::egress::{self, HostPattern, Target};
use crate::limits::SECRET_NAME_BYTES_MAX;

/// One secret that a profile grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretGrant {
    /// Its name, under which it is looked up.
    pub name: String,
    /// The environment variable that holds it, or what stands for it.
    pub env: String,
    /// The hosts it may be sent to; meaningful at the host's boundary only.
    pub hosts: Vec<HostPattern>,
    /// How it reaches the tool.
    pub injection: Injection,
}

/// How secrets reach the tools of a profile (CKP 0.3.0, section 5.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Injection {
    /// The value is in the environment of the guest and of native processes.
    Environment,
    /// A file in the guest's file system. Not served yet: refused.
    FileMount,
    /// The guest has a placeholder, and the host puts the value into requests to bound hosts.
    #[default]
    HostBoundary,
}

impl SecretGrant {
    /// Returns whether the value may be sent to `target`: a bound host, over an encrypted
    /// connection or to this very machine.
    pub fn may_go_to(&self, target: &Target) -> bool {
        let private = target.tls || target.host.is_this_machine();
        private && self.hosts.iter().any(|pattern| pattern.matches(&target.host))
    }

    /// Returns what this and `other` both grant of one secret, if anything.
    pub(super) fn within(mut self, others: &[Self]) -> Option<Self> {
        let same = |other: &&Self| {
            (&other.name, &other.env, other.injection) == (&self.name, &self.env, self.injection)
        };
        let other = others.iter().find(same)?;
        self.hosts = egress::shared(&self.hosts, &other.hosts);
        Some(self)
    }
}

/// What the names of logins at MCP servers begin with: they are kept beside the secrets, and nothing but
/// the server that they are for may have them, so they are no names of secrets.
pub const LOGIN_PREFIX: &str = "oauth.";

/// Returns whether `name` can name a secret: letters, digits, `_`, `-` and `.`, the first a
/// letter, a digit or `_`, at most [`SECRET_NAME_BYTES_MAX`] bytes. As a file's name it cannot
/// leave its folder.
pub fn is_secret_name(name: &str) -> bool {
    let first = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.len() <= SECRET_NAME_BYTES_MAX
        && name.starts_with(first)
        && name.chars().all(|c| first(c) || matches!(c, '-' | '.'))
        && !name.starts_with(LOGIN_PREFIX)
}

/// Returns whether `name` can name an environment variable: letters, digits and `_`, the first no
/// digit.
pub fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::{EgressRules, HostRules, parse_url};

    fn grant(hosts: &[&str]) -> SecretGrant {
        SecretGrant {
            name: "TOKEN".to_owned(),
            env: "TOKEN".to_owned(),
            hosts: hosts.iter().map(|host| HostPattern::parse(host).unwrap()).collect(),
            injection: Injection::HostBoundary,
        }
    }

    fn target(url: &str) -> Target {
        let rules = EgressRules { block_private: false, ..EgressRules::of(HostRules::Any) };
        rules.check_url(&parse_url(url).unwrap()).unwrap()
    }

    #[test]
    fn a_value_goes_to_bound_hosts_and_never_in_the_clear_over_a_network() {
        let bound = grant(&["api.example.com", "127.0.0.1", "localhost", "10.0.0.1", "::1"]);
        for (url, expected) in [
            ("https://api.example.com/x", true),
            ("https://API.example.com.:443/", true),
            ("http://api.example.com/", false),
            ("https://x.api.example.com/", false),
            ("https://api.example.com.evil.test/", false),
            ("https://evil.test/?api.example.com", false),
            ("http://127.0.0.1/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://[::1]/", true),
            ("http://localhost/", true),
            ("http://10.0.0.1/", false),
            ("https://10.0.0.1/", true),
        ] {
            assert_eq!(bound.may_go_to(&target(url)), expected, "{url}");
        }
    }

    #[test]
    fn two_profiles_grant_a_secret_together_only_where_both_do() {
        let own = grant(&["*.example.com", "a.test"]);
        let other = [grant(&["api.example.com", "b.test"])];
        assert_eq!(own.clone().within(&other), Some(grant(&["api.example.com"])));
        let elsewhere = SecretGrant { env: "OTHER".to_owned(), ..own.clone() };
        assert_eq!(elsewhere.within(&other), None);
        let inside = SecretGrant { injection: Injection::Environment, ..own };
        assert_eq!(inside.within(&other), None);
    }

    #[test]
    fn a_name_cannot_leave_a_folder() {
        assert!(is_secret_name("API_TOKEN") && is_secret_name("a.b-c") && is_secret_name("_"));
        assert!(!is_secret_name("oauth.web") && is_secret_name("oauth"));
        let long = "x".repeat(SECRET_NAME_BYTES_MAX + 1);
        for name in ["", ".", "..", "../x", "a/b", "/a", "a\0", "-a", "a b", "ä", &long] {
            assert!(!is_secret_name(name), "{name:?}");
        }
    }
}
