//! The rules of one profile and their verdicts on a URL and on addresses.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use super::address::{Reach, reach};
use super::denied::{EgressDenied, Reason};
use super::pattern::{HostPattern, canonical};
use crate::violation::Lack;

/// The ports that are open where a profile names none: plain and encrypted web.
pub const PORTS_DEFAULT: [u16; 2] = [80, 443];

/// Names that lead to a cloud machine's credentials, whatever they resolve to.
const METADATA_NAMES: [&str; 2] = ["metadata.google.internal", "metadata.internal"];

/// Which hosts a call may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressRules {
    /// The hosts that may be reached.
    pub hosts: HostRules,
    /// Hosts that may not, even where `hosts` has them; a name here covers what is below it.
    pub blocked: Vec<HostPattern>,
    /// Refuse every address that is not globally routable. With `false`, private addresses
    /// (this machine included) may be reached too; metadata addresses only where `hosts` lists
    /// that very address, and what is no destination at all never.
    pub block_private: bool,
    /// The ports that may be reached; empty means [`PORTS_DEFAULT`].
    pub ports: Vec<u16>,
    /// The schemes that may be used.
    pub schemes: Schemes,
}

impl EgressRules {
    /// Returns the rules that open these hosts and nothing more: no private address, no ports but the web's.
    pub const fn of(hosts: HostRules) -> Self {
        let schemes = Schemes::ALL;
        Self { hosts, blocked: Vec::new(), block_private: true, ports: Vec::new(), schemes }
    }
}

/// The schemes of addresses that may be used, of the two that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schemes {
    /// In the clear.
    pub http: bool,
    /// Encrypted.
    pub https: bool,
}

impl Schemes {
    /// Both.
    pub const ALL: Self = Self { http: true, https: true };
}

/// The allow-list of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostRules {
    /// Every host.
    Any,
    /// These hosts; an empty list allows none.
    Only(Vec<HostPattern>),
}

/// Where a URL that passed [`EgressRules::check_url`] leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The host, in canonical form.
    pub host: TargetHost,
    /// The port.
    pub port: u16,
    /// Whether the connection is encrypted (`https`).
    pub tls: bool,
}

/// A host in canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TargetHost {
    /// An address written in the URL; nothing is looked up.
    Address(IpAddr),
    /// A lower-case ASCII name without a trailing dot.
    Name(String),
}

/// Says whether `host` is this very machine, so that what is sent to it crosses no network: a
/// loopback address, or `localhost`. Names below that are looked up on some systems.
pub fn is_this_machine<S: AsRef<str>>(host: Host<S>) -> bool {
    canonical(host).is_some_and(|host| host.is_this_machine())
}

impl TargetHost {
    /// As [`is_this_machine`].
    pub fn is_this_machine(&self) -> bool {
        match self {
            Self::Address(ip) => ip.to_canonical().is_loopback(),
            Self::Name(name) => name == "localhost",
        }
    }
}

impl fmt::Display for TargetHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
            Self::Address(ip) => ip.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl Target {
    /// Returns the value of the `Host` header: the port only where it is not the scheme's own.
    pub fn authority(&self) -> String {
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Parses `text` as an absolute URL, refusing what parsers are known to read differently.
///
/// # Errors
/// Refuses backslashes, white space, control characters, web addresses that do not spell out
/// `://` and a host right behind it, an `@` before the path, and whatever is no WHATWG URL.
pub fn parse_url(text: &str) -> Result<Url, EgressDenied> {
    let malformed = |why: &str| EgressDenied::new(Reason::Malformed, format!("{why}: {text}"));
    if text.contains(|c: char| c == '\\' || c.is_whitespace() || c.is_control()) {
        return Err(malformed("stray character"));
    }
    let url = Url::parse(text).map_err(|error| malformed(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Ok(url);
    }
    match authority(text) {
        None | Some("") => Err(malformed("no host behind `://`")),
        // Even an empty user name is a difference between parsers.
        Some(host) if host.contains('@') => Err(EgressDenied::new(Reason::UserInfo, host)),
        Some(_) => Ok(url),
    }
}

/// Returns what stands between `://` and the path, query or fragment.
fn authority(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(':')?;
    rest.strip_prefix("//")?.split(['/', '?', '#']).next()
}

impl EgressRules {
    /// Returns whether the rules name every host that `pattern` names.
    pub fn covers(&self, pattern: &HostPattern) -> bool {
        match &self.hosts {
            HostRules::Any => true,
            HostRules::Only(patterns) => patterns.iter().any(|wide| wide.covers(pattern)),
        }
    }

    /// Decides on `url` before anything is resolved, and returns where it leads.
    ///
    /// # Errors
    /// Refuses schemes that are not among the rules', user names and passwords, hosts and ports
    /// the profile does not open, and addresses that [`Self::check_addresses`] would refuse.
    pub fn check_url(&self, url: &Url) -> Result<Target, EgressDenied> {
        let tls = match url.scheme() {
            "http" if self.schemes.http => false,
            "https" if self.schemes.https => true,
            other => return Err(EgressDenied::new(Reason::Scheme, other)),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EgressDenied::new(Reason::UserInfo, url.host_str().unwrap_or_default()));
        }
        let malformed = || EgressDenied::new(Reason::Malformed, url.as_str());
        let host = url.host().and_then(canonical).ok_or_else(malformed)?;
        let port = url.port_or_known_default().ok_or_else(malformed)?;
        self.check_port(port)?;
        self.check_host(&host)?;
        Ok(Target { host, port, tls })
    }

    /// Decides on all addresses that one look-up returned, and returns those to connect to, in
    /// the same order and without repeats.
    ///
    /// # Errors
    /// One address that may not be reached refuses them all: a name that mixes public and
    /// private answers is an attack or a mistake. No address at all is refused too.
    pub fn check_addresses(&self, addresses: &[IpAddr]) -> Result<Vec<IpAddr>, EgressDenied> {
        let mut checked = Vec::with_capacity(addresses.len());
        for address in addresses {
            self.check_address(*address)?;
            if !checked.contains(address) {
                checked.push(*address);
            }
        }
        if checked.is_empty() {
            return Err(EgressDenied::new(Reason::Address, "the name has no address"));
        }
        Ok(checked)
    }

    pub(crate) fn open_ports(&self) -> &[u16] {
        if self.ports.is_empty() { &PORTS_DEFAULT } else { &self.ports }
    }

    fn check_port(&self, port: u16) -> Result<(), EgressDenied> {
        if port != 0 && self.open_ports().contains(&port) {
            return Ok(());
        }
        Err(EgressDenied::new(Reason::Port, port.to_string()).lacking(Lack::Port(port)))
    }

    fn check_host(&self, host: &TargetHost) -> Result<(), EgressDenied> {
        let allowed = match &self.hosts {
            HostRules::Any => true,
            HostRules::Only(patterns) => patterns.iter().any(|pattern| pattern.matches(host)),
        };
        let blocked = self.blocked.iter().any(|pattern| pattern.blocks(host));
        if !allowed || blocked {
            let denied = EgressDenied::new(Reason::Host, host.to_string());
            return Err(if blocked {
                denied
            } else {
                denied.lacking(Lack::Host(host.to_string()))
            });
        }
        match host {
            TargetHost::Address(ip) => self.check_address(*ip),
            TargetHost::Name(name) => self.check_special_name(name),
        }
    }

    /// Refuses names that mean this machine or its credentials without being looked up.
    fn check_special_name(&self, name: &str) -> Result<(), EgressDenied> {
        let loopback = name == "localhost" || name.ends_with(".localhost");
        if METADATA_NAMES.contains(&name) || (loopback && self.block_private) {
            return Err(EgressDenied::new(Reason::Address, name));
        }
        Ok(())
    }

    fn check_address(&self, address: IpAddr) -> Result<(), EgressDenied> {
        let host = TargetHost::Address(address);
        let allowed = match reach(address) {
            Reach::Public => true,
            Reach::Private => !self.block_private,
            Reach::Metadata => !self.block_private && self.lists(&host),
            Reach::Unusable => false,
        };
        if !allowed || self.blocked.iter().any(|pattern| pattern.blocks(&host)) {
            return Err(EgressDenied::new(Reason::Address, address.to_string()));
        }
        Ok(())
    }

    fn lists(&self, host: &TargetHost) -> bool {
        matches!(&self.hosts, HostRules::Only(patterns) if patterns.iter().any(|p| p.matches(host)))
    }
}
