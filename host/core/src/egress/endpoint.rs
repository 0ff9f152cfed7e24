//! The rules for a server that the operator names: that one, and nothing else.

use url::Host;

use super::pattern::HostPattern;
use super::rules::{EgressRules, HostRules, parse_url};
use super::{EgressDenied, Reason};

/// Returns the rules under which `url` can be reached, and no other host or port.
///
/// The operator wrote it, so a private address is meant: a collector on this machine is usual.
///
/// # Errors
/// What is no `http` or `https` URL with exactly one reading, or holds a user name.
pub fn endpoint(url: &str) -> Result<EgressRules, EgressDenied> {
    let parsed = parse_url(url)?;
    let malformed = || EgressDenied::new(Reason::Malformed, url);
    let host = match parsed.host().ok_or_else(malformed)? {
        Host::Domain(name) => name.to_owned(),
        Host::Ipv4(ip) => ip.to_string(),
        Host::Ipv6(ip) => format!("[{ip}]"),
    };
    let rules = EgressRules {
        block_private: false,
        ports: vec![parsed.port_or_known_default().ok_or_else(malformed)?],
        ..EgressRules::of(HostRules::Only(vec![
            HostPattern::parse(&host).map_err(|_| malformed())?,
        ]))
    };
    rules.check_url(&parsed)?;
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reaches(endpoint_url: &str, url: &str) -> bool {
        endpoint(endpoint_url).unwrap().check_url(&parse_url(url).unwrap()).is_ok()
    }

    #[test]
    fn the_named_server_can_be_reached_and_no_other() {
        let named = "http://localhost:4318/v1";
        assert!(reaches(named, "http://localhost:4318/v1/traces"));
        assert!(!reaches(named, "http://localhost:4319/v1"));
        assert!(!reaches(named, "http://127.0.0.1:4318/v1"));
        assert!(!reaches(named, "http://sub.localhost:4318/v1"));
        assert!(reaches("http://[::1]:9/", "http://[::1]:9/x"));
        assert!(reaches("https://example.com", "https://example.com/x"));
        assert!(!reaches("https://example.com", "http://example.com/x"));
    }

    #[test]
    fn what_is_no_plain_web_address_is_refused() {
        for url in ["", "collector", "ftp://h/", "http://u:p@h/", "file:///etc/passwd"] {
            assert!(endpoint(url).is_err(), "{url}");
        }
    }
}
