//! Addresses: of mail, of machines, and of what only a network's inside knows.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use super::{EMAIL, INTERNAL_HOST, IP, LOCAL_PORT, PRIVATE_IP, ends, word_before};

/// The longest name in front of an `@` (RFC 5321).
const LOCAL_BYTES_MAX: usize = 64;
/// The user and the password of an address are looked for no further back.
const AUTHORITY_BYTES_MAX: usize = 128;
/// What makes a path of what stands behind a host is looked for no further.
const PATH_BYTES_MAX: usize = 128;
/// Endings of files and units that are written with an `@`: `icon@2x.png`, `getty@tty1.service`.
const FILE_ENDINGS: [&str; 24] = [
    "png", "jpg", "jpeg", "gif", "svg", "webp", "css", "js", "mjs", "ts", "tsx", "json", "html",
    "yml", "yaml", "toml", "tgz", "gz", "xz", "jar", "service", "socket", "timer", "target",
];
/// Octets of a version are no larger, and few addresses have none that is.
const VERSION_OCTET_MAX: u8 = 63;
/// What four small numbers are that follow one of these.
const VERSION_WORDS: [&str; 12] = [
    "v", "version", "ver", "release", "build", "firmware", "revision", "section", "chapter", "rev",
    "oid", "tag",
];
/// The same for addresses.
const ADDRESS_WORDS: [&str; 20] = [
    "ip", "host", "addr", "address", "server", "from", "client", "peer", "ping", "dns", "gateway",
    "nameserver", "remote", "connect", "inet", "ssh", "curl", "for", "resolver", "at",
];
/// What `.internal` is a part of in programs.
const PROGRAM_WORDS: [&str; 16] = [
    "self", "this", "super", "com", "org", "net", "jdk", "sun", "java", "module", "config",
    "options", "props", "state", "error", "pkg",
];

pub(super) fn email(text: &str, at: Range<usize>) -> Option<(&'static str, Range<usize>)> {
    let found = text.get(at.clone())?;
    let found = found.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let at = at.end - found.len()..at.end;
    let (local, domain) = found.split_once('@')?;
    let ending = domain.rsplit('.').next()?.to_ascii_lowercase();
    let is_file = FILE_ENDINGS.contains(&ending.as_str());
    // In front of a host's name in an address stands no mail's.
    let near = before(text, at.start)
        .get(text.floor_char_boundary(at.start.saturating_sub(AUTHORITY_BYTES_MAX))..);
    let word = near.unwrap_or_default().rsplit(char::is_whitespace).next().unwrap_or_default();
    let is_user = word.rsplit_once("//").is_some_and(|(_, user)| !user.contains(['/', '?']));
    // `git@host.test:a` and `ann@host.test:a/b` are where something is, `x@y.zz(` is a program's, and behind
    // `x@y.zz:` may be a password.
    let after = text.get(at.end..).unwrap_or_default().as_bytes();
    let path = after.strip_prefix(b":").unwrap_or_default().iter().take(PATH_BYTES_MAX);
    let mut path = path.take_while(|byte| byte.is_ascii_graphic() && !b"\"'<>,;".contains(byte));
    let is_place =
        path.any(|byte| b"/~".contains(byte)) || (local == "git" && after.starts_with(b":"));
    let is_one = (1..=LOCAL_BYTES_MAX).contains(&local.len())
        && !domain.starts_with('-')
        && !domain.contains("..")
        && !is_file
        && !is_user
        && !is_place
        && !after.starts_with(b"(")
        && ends(text, at.end);
    is_one.then_some((EMAIL, at))
}

/// An address of a machine, with its port where there is one.
pub(super) fn ip(text: &str, at: Range<usize>) -> Option<(&'static str, Range<usize>)> {
    let found = text.get(at.clone())?;
    if let Ok(address) = found.parse() {
        return ipv6(text, &address, &at).map(|name| (name, at));
    }
    let (host, port) = match found.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().ok()),
        None => (found, None),
    };
    let host_at = at.start..at.start + host.len();
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        if address.is_loopback() || address.is_unspecified() {
            let is_one = port.is_some() && begins(text, at.start) && ends(text, at.end);
            return is_one.then_some((LOCAL_PORT, at));
        }
        return ipv4(text, address, &host_at, port.is_some()).map(|name| (name, host_at));
    }
    if let Ok(address) = host.parse() {
        return ipv6(text, &address, &host_at).map(|name| (name, host_at));
    }
    let is_local = host.eq_ignore_ascii_case("localhost") || host == "[::1]";
    let is_one = is_local && port.is_some() && begins(text, at.start) && ends(text, at.end);
    is_one.then_some((LOCAL_PORT, at))
}

fn ipv4(text: &str, address: Ipv4Addr, at: &Range<usize>, has_port: bool) -> Option<&'static str> {
    let (before, word) = (before(text, at.start), word_before(text, at.start));
    if !begins(text, at.start) || !ends(text, at.end) || VERSION_WORDS.contains(&word.as_str()) {
        return None;
    }
    if is_inside(address) {
        return Some(PRIVATE_IP);
    }
    let [first, .., last] = address.octets();
    let is_mask = first == 255 || (last == 0 && address.octets().get(2) == Some(&0));
    // `Browser/120.0.0.0` is a version, `//120.0.0.1` none.
    let is_path = before.ends_with('/') && !before.ends_with("//");
    if address.is_multicast() || first == 0 || is_mask || is_path {
        return None;
    }
    let is_small = address.octets().iter().all(|octet| *octet <= VERSION_OCTET_MAX);
    let is_named =
        || ADDRESS_WORDS.iter().any(|it| word == *it || word.ends_with(&format!("_{it}")));
    (!is_small || has_port || before.ends_with(['@', '/']) || is_named()).then_some(IP)
}

/// Says whether an address means something only inside of a network.
fn is_inside(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    address.is_private() || address.is_link_local() || (first == 100 && (64..128).contains(&second))
}

/// Of all that can be read as one, addresses that are given out: `dead::beef` is a program's.
fn ipv6(text: &str, address: &Ipv6Addr, at: &Range<usize>) -> Option<&'static str> {
    let [first, ..] = address.segments();
    let name = match first {
        0x2000..=0x3fff => IP,
        0xfc00..=0xfdff | 0xfe80..=0xfebf => PRIVATE_IP,
        _ => return None,
    };
    let has_digit = text.get(at.clone())?.contains(|c: char| c.is_ascii_digit());
    let is_alone =
        begins(text, at.start) && !before(text, at.start).ends_with(':') && ends(text, at.end);
    (has_digit && is_alone && !text.get(at.end..)?.starts_with(':')).then_some(name)
}

/// A name that ends as those inside of a network do.
pub(super) fn host(text: &str, at: Range<usize>) -> Option<(&'static str, Range<usize>)> {
    let found = text.get(at.clone())?.to_ascii_lowercase();
    let labels: Vec<&str> = found.split('.').collect();
    let is_program = PROGRAM_WORDS.iter().any(|word| labels.first() == Some(word));
    // `service.namespace.svc` has a namespace, and `x.svc` is anything's.
    let is_long = labels.last() != Some(&"svc") || labels.len() > 2;
    let after = text.get(at.end..).unwrap_or_default();
    let is_used =
        after.starts_with(['(', '_', '[']) || after.starts_with(" =") || after.starts_with("::");
    let is_one = !is_program && is_long && !is_used && begins(text, at.start) && ends(text, at.end);
    is_one.then_some((INTERNAL_HOST, at))
}

/// Says whether no word, number or path goes on at `start`.
fn begins(text: &str, start: usize) -> bool {
    let joins = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+' | b'~' | b'^')
    };
    let before = before(text, start);
    let is_bound = ["==", ">=", "<=", "!="].iter().any(|bound| before.ends_with(bound));
    !before.bytes().next_back().is_some_and(joins) && !is_bound
}

fn before(text: &str, start: usize) -> &str {
    text.get(..start).unwrap_or_default()
}
