//! `registries`: who is asked for `claw://registry/…` addresses, in this order.

use std::collections::BTreeSet;

use super::packages::is_safe;
use super::reader::Reader;
use crate::limits::REGISTRIES_MAX;
use crate::manifest::node::Node;

/// One of `registries`: a server that publishes documents and components.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrySettings {
    /// What messages call it.
    pub name: String,
    /// Where it is, without a slash at the end: `https`, or `http` on this machine only.
    pub url: String,
}

impl Reader {
    /// Returns the list, in its order, which is the order in which they are asked.
    pub(super) fn take_registries(&mut self, list: &Node) -> Vec<RegistrySettings> {
        if list.items().len() > REGISTRIES_MAX {
            let reason = format!("more than {REGISTRIES_MAX} registries");
            self.refuse(&list.at, reason, "name fewer");
            return Vec::new();
        }
        let mut seen = BTreeSet::new();
        list.items().iter().map(|item| self.take_registry(item, &mut seen)).collect()
    }

    fn take_registry(&mut self, item: &Node, seen: &mut BTreeSet<String>) -> RegistrySettings {
        let url = item.text(&["url"]).unwrap_or_default();
        if !is_safe(url) {
            // The address itself is not shown: somebody may have put a password into it.
            let help = "write `https://host[:port][/path]`; `http://` on 127.0.0.1, [::1] or localhost only; no user name, query or fragment";
            self.refuse(item.place(&["url"]), "this is no address of a registry", help);
        }
        let name = self.take_name("registry", item, seen);
        RegistrySettings { name, url: url.trim_end_matches('/').to_owned() }
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
            assert!(is_safe(url), "{url}");
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
            assert!(!is_safe(url), "{url}");
        }
    }
}
