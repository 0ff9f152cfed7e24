//! Where requests and paths lead: nothing that is accepted goes anywhere but where it was allowed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use clawhost_core::egress::{
    self, EgressRules, HostPattern, HostRules, PORTS_DEFAULT, Reach, Schemes, Target, TargetHost,
};
use clawhost_core::policy::{Folder, NOWHERE, ToolPaths};
use serde_json::json;
use url::Url;

use super::input::Input;

/// Hosts that rules name.
const HOSTS: [&str; 8] = [
    "example.com", "*.example.com", "a.b", "localhost", "10.0.0.1", "93.184.216.34",
    "169.254.169.254", "[2606:2800:220:1::1]",
];

/// Reads `data` as rules, then a URL, where it redirects to, an address, a path and a folder.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let rules = rules(&mut input);
    let (first, redirect) = (input.text(), input.text());
    let Ok(url) = egress::parse_url(&first) else { return paths(&mut input) };
    try_url(&rules, &first, &url);
    // A redirect is a new request; only an answer that was allowed to come makes one.
    if rules.check_url(&url).is_ok()
        && let Ok(next) = url.join(&redirect)
    {
        try_url(&rules, next.as_str(), &next);
    }
    if let Ok(own) = egress::endpoint(&first) {
        let target = own.check_url(&url).expect("an endpoint reaches itself");
        if let Ok(other) = url.join(&redirect).map(|next| own.check_url(&next))
            && let Ok(other) = other
        {
            assert_eq!((&other.host, other.port), (&target.host, target.port), "{redirect}");
        }
    }
    paths(&mut input);
}

fn rules(input: &mut Input<'_>) -> EgressRules {
    let mut patterns = |most: usize| -> Vec<HostPattern> {
        let count = input.below(most);
        let one = |_| HostPattern::parse(input.one_of(&HOSTS)).expect("they are patterns");
        (0..count).map(one).collect()
    };
    let (listed, blocked) = (patterns(5), patterns(3));
    let hosts = if listed.is_empty() { HostRules::Any } else { HostRules::Only(listed) };
    let ports = if input.flag() { Vec::new() } else { vec![8080, 443] };
    let (block_private, schemes) = (!input.byte().is_multiple_of(4), Schemes::ALL);
    EgressRules { hosts, blocked, block_private, ports, schemes }
}

fn try_url(rules: &EgressRules, text: &str, url: &Url) {
    let Ok(target) = rules.check_url(url) else { return };
    let ports = if rules.ports.is_empty() { &PORTS_DEFAULT[..] } else { &rules.ports };
    assert!(ports.contains(&target.port), "{text}");
    assert!(url.username().is_empty() && url.password().is_none(), "{text}");
    if let HostRules::Only(list) = &rules.hosts {
        assert!(list.iter().any(|pattern| pattern.matches(&target.host)), "{text}");
    }
    assert!(!rules.blocked.iter().any(|pattern| pattern.matches(&target.host)), "{text}");
    if let TargetHost::Address(address) = target.host {
        check_address(rules, address);
    }
    check_reading(text, &target);
    let again = format!("http{}://{}/", if target.tls { "s" } else { "" }, target.authority());
    let again = egress::parse_url(&again).expect("a target is a URL");
    assert_eq!(rules.check_url(&again).as_ref(), Ok(&target), "{text}");
}

/// Another reader's idea of a plain host: what stands between `//` and the path.
fn check_reading(text: &str, target: &Target) {
    let rest = text.split_once("//").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    assert!(!authority.contains('@'), "{text}");
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    if let TargetHost::Name(name) = &target.host
        && host.bytes().all(plain)
    {
        let host = host.to_ascii_lowercase();
        assert_eq!(host.strip_suffix('.').unwrap_or(&host), name, "{text}");
    }
}

/// Asks the standard library and two tables of its own what an accepted address is.
fn check_address(rules: &EgressRules, address: IpAddr) {
    assert_ne!(egress::reach(address), Reach::Unusable, "{address}");
    if !rules.block_private {
        return;
    }
    let is_fine = match address {
        IpAddr::V4(ip) => is_public(ip),
        IpAddr::V6(ip) => is_public_6(ip),
    };
    assert!(is_fine, "{address}");
}

fn is_public(ip: Ipv4Addr) -> bool {
    let [first, second, ..] = ip.octets();
    let shared = first == 100 && (64..128).contains(&second);
    !(ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_documentation()
        || first == 0
        || first >= 240
        || shared)
}

fn is_public_6(ip: Ipv6Addr) -> bool {
    let [first, ..] = ip.segments();
    // 2000::/3 is all that was ever given out; 2002::/16 and 2001::/32 hold others' addresses.
    first & 0xe000 == 0x2000 && first != 0x2002 && ip.segments()[..2] != [0x2001, 0]
}

/// Addresses of one answer, and paths of arguments against a folder.
fn paths(input: &mut Input<'_>) {
    let mut octets = [0; 16];
    octets.iter_mut().for_each(|octet| *octet = input.byte());
    let four = Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]);
    let answers = [IpAddr::from(four), IpAddr::from(Ipv6Addr::from(octets))];
    let strict = EgressRules {
        hosts: HostRules::Any,
        blocked: Vec::new(),
        block_private: true,
        ports: Vec::new(),
        schemes: Schemes::ALL,
    };
    for answer in answers {
        if let Ok(checked) = strict.check_addresses(&[answer]) {
            checked.into_iter().for_each(|address| check_address(&strict, address));
        }
    }
    let (path, folder) = (input.text(), input.text());
    let paths = ToolPaths::of([&json!({"properties": {"path": {}}})]);
    for found in paths.of_call(&json!({"path": path})) {
        let climbs = found.split('/').any(|step| step == "..");
        assert!(found == NOWHERE || (found.starts_with('/') && !climbs), "{path:?}: {found:?}");
        if let Ok(folder) = Folder::parse(&folder)
            && folder.holds(&found)
        {
            assert!(folder.meets(&found));
            assert!(is_below(&found, folder.as_str()), "{found:?} in {folder:?}");
        }
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    let steps = |text: &str| -> Vec<String> {
        text.split('/').filter(|step| !step.is_empty()).map(str::to_owned).collect()
    };
    steps(path).starts_with(&steps(folder))
}
