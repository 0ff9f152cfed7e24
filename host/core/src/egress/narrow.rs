//! Two sets of egress rules at once: what both allow.

use std::collections::BTreeSet;

use super::pattern::HostPattern;
use super::rules::{EgressRules, HostRules, Schemes};

/// A port that is never open, where no port is left: an empty list would mean the usual ones.
const PORT_NONE: u16 = 0;

impl EgressRules {
    /// Returns rules that allow exactly what these and `other` both allow.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        let blocked = self.blocked.iter().chain(&other.blocked).cloned().collect();
        Self {
            hosts: hosts(&self.hosts, &other.hosts),
            blocked,
            block_private: self.block_private || other.block_private,
            ports: ports(self, other),
            schemes: schemes(self.schemes, other.schemes),
        }
    }
}

fn hosts(first: &HostRules, second: &HostRules) -> HostRules {
    match (first, second) {
        (HostRules::Any, only) | (only, HostRules::Any) => only.clone(),
        (HostRules::Only(first), HostRules::Only(second)) => HostRules::Only(shared(first, second)),
    }
}

/// Returns the patterns of either list that lie wholly within one of the other. Two patterns share
/// hosts only where one of them covers the other, so nothing that both allow is lost.
pub(crate) fn shared(first: &[HostPattern], second: &[HostPattern]) -> Vec<HostPattern> {
    let within = |pattern: &HostPattern, wider: &[HostPattern]| {
        wider.iter().any(|wide| wide.covers(pattern))
    };
    let own = first.iter().filter(|pattern| within(pattern, second));
    let also = second.iter().filter(|pattern| within(pattern, first));
    let both: BTreeSet<&HostPattern> = own.chain(also).collect();
    both.into_iter().cloned().collect()
}

const fn schemes(first: Schemes, second: Schemes) -> Schemes {
    Schemes { http: first.http && second.http, https: first.https && second.https }
}

fn ports(first: &EgressRules, second: &EgressRules) -> Vec<u16> {
    let open = second.open_ports();
    let both: Vec<u16> =
        first.open_ports().iter().copied().filter(|port| open.contains(port)).collect();
    if both.is_empty() { vec![PORT_NONE] } else { both }
}

#[cfg(test)]
mod tests {
    use super::super::rules::parse_url;
    use super::*;
    use proptest::prelude::*;

    const URLS: [&str; 8] = [
        "https://a.example.com/", "https://b.a.example.com/", "https://example.com/",
        "http://example.com:8080/", "https://example.org/", "http://10.0.0.1/",
        "http://192.0.2.7/", "https://localhost/",
    ];

    fn pattern() -> impl Strategy<Value = HostPattern> {
        let texts =
            ["example.com", "*.example.com", "*.a.example.com", "a.example.com", "10.0.0.1"];
        prop::sample::select(texts.to_vec()).prop_map(|text| HostPattern::parse(text).unwrap())
    }

    fn rules() -> impl Strategy<Value = EgressRules> {
        let hosts = prop_oneof![
            Just(HostRules::Any),
            prop::collection::vec(pattern(), 0..4).prop_map(HostRules::Only)
        ];
        let ports = prop::sample::subsequence(vec![80, 443, 8080], 0..=3);
        let blocked = prop::collection::vec(pattern(), 0..2);
        let schemes = any::<(bool, bool)>().prop_map(|(http, https)| Schemes { http, https });
        (hosts, blocked, any::<bool>(), ports, schemes).prop_map(
            |(hosts, blocked, block_private, ports, schemes)| EgressRules {
                hosts,
                blocked,
                block_private,
                ports,
                schemes,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_left_is_what_both_allow(first in rules(), second in rules()) {
            let both = first.within(&second);
            for text in URLS {
                let url = parse_url(text).unwrap();
                let expected = first.check_url(&url).is_ok() && second.check_url(&url).is_ok();
                prop_assert_eq!(both.check_url(&url).is_ok(), expected, "{}", text);
            }
        }
    }
}
