//! A host as a manifest names it: `example.com`, `*.example.com`, `192.0.2.7`, `[2001:db8::1]`.

use std::fmt;
use std::net::IpAddr;

use url::Host;

use super::rules::TargetHost;

/// The longest name DNS can carry, in bytes.
const NAME_BYTES_MAX: usize = 253;
/// The longest part of a name between two dots, in bytes.
const LABEL_BYTES_MAX: usize = 63;

/// A host or the hosts below a name, in canonical form.
///
/// Lower case, without a trailing dot, in its ASCII (punycode) form; an address in any of its
/// spellings is that address. `*.example.com` is everything below `example.com`, at any depth
/// and dot-bounded, and not `example.com` itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPattern(Form);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    Address(IpAddr),
    Below(String),
    Name(String),
}

impl HostPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Says what is wrong, in words that finish "failed to parse the host pattern: …": schemes,
    /// ports, paths, zone ids, and wildcards anywhere but as the whole first label are refused.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Err("`*` alone allows every host; say so with mode `allow-all`".to_owned());
        }
        let (wild, rest) = text.strip_prefix("*.").map_or((false, text), |rest| (true, rest));
        match (parse_host(rest)?, wild) {
            (TargetHost::Name(name), true) => Ok(Self(Form::Below(name))),
            (TargetHost::Name(name), false) => Ok(Self(Form::Name(name))),
            (TargetHost::Address(ip), false) => Ok(Self(Form::Address(ip.to_canonical()))),
            (TargetHost::Address(_), true) => {
                Err(format!("`{text}`: an address has no names below it"))
            }
        }
    }

    /// Returns whether `host` is one this pattern names.
    pub fn matches(&self, host: &TargetHost) -> bool {
        match (&self.0, host) {
            (Form::Address(listed), TargetHost::Address(ip)) => *listed == ip.to_canonical(),
            (Form::Name(listed), TargetHost::Name(name)) => listed == name,
            (Form::Below(parent), TargetHost::Name(name)) => is_below(name, parent),
            _ => false,
        }
    }

    /// Returns whether this pattern names every host that `other` names.
    pub fn covers(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Form::Below(parent), Form::Below(name)) => name == parent || is_below(name, parent),
            (Form::Below(parent), Form::Name(name)) => is_below(name, parent),
            _ => self == other,
        }
    }

    /// Returns whether a block-list that holds this pattern blocks `host`: blocking a name
    /// blocks everything below it too.
    pub(super) fn blocks(&self, host: &TargetHost) -> bool {
        match (&self.0, host) {
            (Form::Name(listed), TargetHost::Name(name)) => {
                listed == name || is_below(name, listed)
            }
            _ => self.matches(host),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Address(ip) => ip.fmt(f),
            Form::Below(parent) => write!(f, "*.{parent}"),
            Form::Name(name) => name.fmt(f),
        }
    }
}

fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|front| front.len() > 1 && front.ends_with('.'))
}

fn parse_host(text: &str) -> Result<TargetHost, String> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(TargetHost::Address(ip));
    }
    let stray = |c: char| c.is_whitespace() || c.is_control() || "*/\\@?#%".contains(c);
    if text.contains(stray) {
        return Err(format!("`{}` is not a host name or address", text.escape_debug()));
    }
    if text.contains(':') && !text.starts_with('[') {
        return Err(format!("`{text}`: a host has no scheme and no port here"));
    }
    let host = Host::parse(text).map_err(|error| format!("`{text}`: {error}"))?;
    canonical(host).ok_or_else(|| format!("`{text}` is not a name DNS can carry"))
}

/// Returns `host` in canonical form, or nothing where DNS could not carry it.
pub(super) fn canonical<S: AsRef<str>>(host: Host<S>) -> Option<TargetHost> {
    let name = match host {
        Host::Ipv4(ip) => return Some(TargetHost::Address(ip.into())),
        Host::Ipv6(ip) => return Some(TargetHost::Address(ip.into())),
        Host::Domain(name) => name.as_ref().to_ascii_lowercase(),
    };
    let name = name.strip_suffix('.').unwrap_or(&name);
    let fits = name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label);
    fits.then(|| TargetHost::Name(name.to_owned()))
}

/// Returns whether `label` is one that names of hosts are made of; underscores occur.
fn is_label(label: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> TargetHost {
        parse_host(text).unwrap()
    }

    #[test]
    fn a_wildcard_is_dot_bounded_and_excludes_the_name_itself() {
        let pattern = HostPattern::parse("*.Example.COM.").unwrap();
        assert_eq!(pattern.to_string(), "*.example.com");
        for (name, expected) in [
            ("a.example.com", true),
            ("b.a.example.com", true),
            ("A.EXAMPLE.com.", true),
            ("example.com", false),
            ("evilexample.com", false),
            ("a.example.com.evil.com", false),
        ] {
            assert_eq!(pattern.matches(&host(name)), expected, "{name}");
        }
    }

    #[test]
    fn an_exact_name_matches_nothing_else() {
        let pattern = HostPattern::parse("allowed.com").unwrap();
        assert!(pattern.matches(&host("ALLOWED.com.")));
        for name in ["allowed.com.evil.com", "evilallowed.com", "a.allowed.com", "allowed.co"] {
            assert!(!pattern.matches(&host(name)), "{name}");
        }
    }

    #[test]
    fn blocking_a_name_blocks_what_is_below_it() {
        let pattern = HostPattern::parse("bad.com").unwrap();
        assert!(pattern.blocks(&host("bad.com")) && pattern.blocks(&host("x.bad.com")));
        assert!(!pattern.blocks(&host("notbad.com")));
    }

    #[test]
    fn spellings_of_one_address_are_one_pattern() {
        for text in
            ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "127.0.0.1."]
        {
            assert_eq!(HostPattern::parse(text).unwrap().to_string(), "127.0.0.1", "{text}");
        }
        assert_eq!(
            HostPattern::parse("2001:DB8::1").unwrap(),
            HostPattern::parse("[2001:db8:0::1]").unwrap()
        );
    }

    #[test]
    fn international_names_are_compared_in_ascii() {
        let pattern = HostPattern::parse("bücher.example").unwrap();
        assert_eq!(pattern.to_string(), "xn--bcher-kva.example");
        assert_eq!(HostPattern::parse("BÜCHER。example").unwrap(), pattern);
    }

    #[test]
    fn what_is_not_a_host_is_refused() {
        for text in [
            "", "*", "*.", "*.*.com", "a.*.com", "a*.com", "http://a.com", "a.com:80", "a.com/x",
            "u@a.com", "a b.com", "*.127.0.0.1", "[::1", "fe80::1%lo", "[fe80::1%25lo]", "a..com",
            ".", "a.com..", "256.0.0.1", "4294967296", "a\n.com",
        ] {
            assert!(HostPattern::parse(text).is_err(), "{text:?}");
        }
    }
}
