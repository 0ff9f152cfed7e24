//! `registries`: who is asked for `claw://registry/…` addresses, in this order.

use url::{Host, Url};

use super::reader::Reader;
use crate::egress;
use crate::limits::REGISTRIES_MAX;
use crate::manifest::node::Node;
use crate::manifest::problem::Source;
use crate::manifest::shape::{Shape, TEXT, req, shown};
use crate::uri::is_declared_name;

/// One of `registries`: a server that publishes documents and components.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrySettings {
    /// What messages call it.
    pub name: String,
    /// Where it is, without a slash at the end: `https`, or `http` on this machine only.
    pub url: String,
}

pub(super) const REGISTRIES: Shape =
    Shape::List { of: &Shape::Record(&[req("name", &TEXT), req("url", &TEXT)]), min: 0 };

impl Reader {
    /// Takes over the list, in its order, which is the order in which they are asked.
    pub(super) fn take_registries(&mut self, source: &Source, root: &Node) {
        let Some(list) = root.get(&["registries"]) else {
            return;
        };
        self.settings.registries.clear();
        if list.items().len() > REGISTRIES_MAX {
            let reason = format!("more than {REGISTRIES_MAX} registries");
            self.problems.invalid(source, list.at, reason, "name fewer");
            return;
        }
        list.items().iter().for_each(|item| self.take_registry(source, item));
    }

    fn take_registry(&mut self, source: &Source, item: &Node) {
        let at = |key| item.get(&[key]).map_or(item.at, |node| node.at);
        let name = item.text(&["name"]).unwrap_or_default();
        let url = item.text(&["url"]).unwrap_or_default();
        let taken = self.settings.registries.iter().any(|other| other.name == name);
        if !is_declared_name(name) || taken {
            let reason = format!("the registry name `{}` is not allowed", shown(name));
            let help = "1 to 63 letters, digits and hyphens, the first a letter or digit, and each name once";
            self.problems.invalid(source, at("name"), reason, help);
        }
        if !is_registry(url) {
            // The address itself is not shown: somebody may have put a password into it.
            let help = "write `https://host[:port][/path]`; `http://` on 127.0.0.1, [::1] or localhost only; no user name, query or fragment";
            self.problems.invalid(source, at("url"), "this is no address of a registry", help);
        }
        let url = url.trim_end_matches('/').to_owned();
        self.settings.registries.push(RegistrySettings { name: name.to_owned(), url });
    }
}

/// Says whether `text` is an address that a registry may have: what it sends is code, so that
/// nobody on the way may change it.
fn is_registry(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else {
        return false;
    };
    let plain = url.query().is_none() && url.fragment().is_none();
    let safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
    plain && safe && egress::endpoint(text).is_ok()
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_encrypted_or_on_this_machine() {
        for url in [
            "https://registry.example",
            "https://registry.example:8443/v1",
            "http://127.0.0.1:8080",
            "http://[::1]:1/",
            "http://localhost:7334/v1",
        ] {
            assert!(is_registry(url), "{url}");
        }
        for url in [
            "",
            "registry.example",
            "http://registry.example",
            "http://192.168.1.1/",
            "http://localhost.evil.example",
            "https://user:pw@registry.example",
            "https://registry.example/?q",
            "https://registry.example/#f",
            "ftp://registry.example",
            "file:///srv/registry",
            "https://*.example",
        ] {
            assert!(!is_registry(url), "{url}");
        }
    }
}
