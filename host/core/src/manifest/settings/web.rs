//! `tools.http_get` and `tools.web_search`: whom two of the built-in tools may ask.

use super::reader::Reader;
use crate::egress::{EgressRules, HostPattern, HostRules, check_request, endpoint};
use crate::grants::{Grants, Injection, SecretGrant};
use crate::manifest::node::Node;
use crate::manifest::shape::shown;

/// The header a search service's key goes into where the file does not say: Brave's.
const KEY_HEADER: &str = "X-Subscription-Token";
/// The variables in which `web_search` finds its service, what stands for the service's key, and
/// the header that belongs into.
const SEARCH_VARIABLES: [&str; 3] = ["WEB_SEARCH_ENDPOINT", "WEB_SEARCH_KEY", "WEB_SEARCH_HEADER"];

/// Whom two of the built-in tools may ask, beside what their profiles say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSettings {
    /// Refuse private addresses to `http_get`, even where its profile opens them.
    pub block_private_ips: bool,
    /// The hosts that `http_get` may reach; all of its profile's where this is absent.
    pub domain_allowlist: Option<Vec<HostPattern>>,
    /// Hosts that `http_get` may not reach.
    pub domain_blocklist: Vec<HostPattern>,
    /// The address of the service that `web_search` asks, which is all it reaches.
    pub endpoint: Option<String>,
    /// The header that the service's key goes into.
    pub header: String,
    /// The name of the secret that is the service's key. It is sent over `https`, or to this
    /// machine, and nowhere else.
    pub secret: Option<String>,
}

impl Default for WebSettings {
    fn default() -> Self {
        Self {
            block_private_ips: true,
            domain_allowlist: None,
            domain_blocklist: Vec::new(),
            endpoint: None,
            header: KEY_HEADER.to_owned(),
            secret: None,
        }
    }
}

impl WebSettings {
    /// Narrows what the built-in `http_get` reaches, and points the built-in `web_search` at its
    /// service, where their profile grants a network at all. Leaves any other tool alone.
    pub fn apply(&self, tool: &str, grants: &mut Grants) {
        let Some(network) = &mut grants.network else { return };
        match (tool, &self.endpoint) {
            ("http_get", _) => *network = network.within(&self.http_get(network.ports.clone())),
            ("web_search", Some(address)) => self.search(address, grants),
            _ => {}
        }
    }

    fn http_get(&self, ports: Vec<u16>) -> EgressRules {
        let hosts = self.domain_allowlist.clone().map_or(HostRules::Any, HostRules::Only);
        let (blocked, block_private) = (self.domain_blocklist.clone(), self.block_private_ips);
        EgressRules { blocked, block_private, ports, ..EgressRules::of(hosts) }
    }

    fn search(&self, address: &str, grants: &mut Grants) {
        // It was checked when it was read; what is no address reaches nothing.
        grants.network = endpoint(address).ok();
        let hosts = match grants.network.as_ref().map(|rules| &rules.hosts) {
            Some(HostRules::Only(hosts)) => hosts.clone(),
            _ => Vec::new(),
        };
        let [place, key, header] = SEARCH_VARIABLES.map(str::to_owned);
        grants.env.insert(place, address.to_owned());
        if let Some(name) = self.secret.clone() {
            let injection = Injection::HostBoundary;
            grants.env.insert(header, self.header.clone());
            grants.secrets.push(SecretGrant { name, env: key, hosts, injection });
        }
    }
}

impl Reader {
    /// Returns what `tools` says of both.
    pub(super) fn take_web(&mut self, tools: &Node) -> WebSettings {
        let (get, search) = (tools.below("http_get"), tools.below("web_search"));
        let header = search.below("header");
        if let Some(name) = header.as_text().filter(|name| !is_header(name)) {
            let reason = format!("`{}` is no header that a tool sets", shown(name));
            self.refuse(&header.at, reason, "write `Authorization` or `X-Subscription-Token`");
        }
        let allows = get.get(&["domain_allowlist"]);
        let default = WebSettings::default();
        WebSettings {
            block_private_ips: get
                .flag(&["block_private_ips"])
                .unwrap_or(default.block_private_ips),
            domain_allowlist: allows.map(|_| self.take_hosts(get, &["domain_allowlist"])),
            domain_blocklist: self.take_hosts(get, &["domain_blocklist"]),
            endpoint: search.read(&["endpoint"]),
            header: header.as_text().map_or(default.header, str::to_owned),
            secret: search.read(&["secret"]),
        }
    }
}

fn is_header(name: &str) -> bool {
    check_request("GET", [(name, &b"key"[..])]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::tests::read_body;
    use super::*;
    use crate::egress::parse_url;

    fn read(tools: &str) -> Result<WebSettings, String> {
        read_body(&format!("tools: {tools}"), &[]).map(|settings| settings.tools.web)
    }

    fn open() -> EgressRules {
        let ports = vec![80, 8080];
        EgressRules { block_private: false, ports, ..EgressRules::of(HostRules::Any) }
    }

    fn granted(tools: &str, tool: &str) -> Grants {
        let mut grants = Grants { network: Some(open()), ..Grants::default() };
        read(tools).unwrap().apply(tool, &mut grants);
        grants
    }

    #[track_caller]
    fn reaches(grants: &Grants, yes: &[&str], no: &[&str]) {
        let rules = grants.network.as_ref().unwrap();
        let reached = |url: &&&str| rules.check_url(&parse_url(url).unwrap()).is_ok();
        assert_eq!(yes.iter().filter(reached).count(), yes.len(), "{yes:?}");
        assert_eq!(no.iter().filter(reached).count(), 0, "{no:?}");
    }

    #[test]
    fn http_get_is_narrowed_and_never_widened() {
        let (public, private) = ("http://a.test:8080/", "http://10.0.0.1/");
        reaches(&granted("{}", "http_get"), &[public], &[private, "http://a.test:443/"]);
        let opened = "{http_get: {block_private_ips: false}}";
        reaches(&granted(opened, "http_get"), &[public, private], &[]);
        let lists = "{http_get: {domain_allowlist: ['*.a.test'], domain_blocklist: [x.a.test]}}";
        let elsewhere = [public, "http://x.a.test/", "http://y.x.a.test/"];
        reaches(&granted(lists, "http_get"), &["http://b.a.test/"], &elsewhere);
        reaches(&granted("{http_get: {domain_allowlist: []}}", "http_get"), &[], &[public]);
        assert_eq!(granted(lists, "web_fetch").network, Some(open()));
        let mut closed = EgressRules { block_private: true, ..open() };
        closed.hosts = HostRules::Only(Vec::new());
        let mut grants = Grants { network: Some(closed), ..Grants::default() };
        read(opened).unwrap().apply("http_get", &mut grants);
        reaches(&grants, &[], &[public, private]);
    }

    #[test]
    fn web_search_reaches_its_service_and_nothing_else() {
        let set = "{web_search: {endpoint: 'http://127.0.0.1:8888/search', secret: KEY}}";
        let grants = granted(set, "web_search");
        reaches(&grants, &["http://127.0.0.1:8888/x"], &["http://a.test/", "http://127.0.0.1/"]);
        assert_eq!(grants.env["WEB_SEARCH_ENDPOINT"], "http://127.0.0.1:8888/search");
        assert_eq!(grants.env["WEB_SEARCH_HEADER"], KEY_HEADER);
        let secret = &grants.secrets[0];
        assert_eq!((secret.name.as_str(), secret.env.as_str()), ("KEY", "WEB_SEARCH_KEY"));
        assert_eq!(secret.hosts[0].to_string(), "127.0.0.1");
        assert_eq!(granted("{}", "web_search").env.len(), 0);
        let mut none = Grants::default();
        read(set).unwrap().apply("web_search", &mut none);
        assert_eq!(none, Grants::default(), "a profile without a network gets none");
    }

    #[test]
    fn what_would_not_hold_is_refused() {
        for (tools, says) in [
            ("{web_search: {endpoint: 'ftp://a.test/'}}", "is no web address"),
            ("{web_search: {endpoint: 'https://u:p@a.test/'}}", "has a user name"),
            ("{web_search: {secret: 'a b'}}", "name of a secret"),
            ("{web_search: {header: Host}}", "no header"),
            ("{http_get: {domain_allowlist: ['http://a.test']}}", "no host"),
            ("{http_get: {allow: []}}", "allow"),
        ] {
            let error = read(tools).unwrap_err();
            assert!(error.contains(says), "{tools}: {error}");
        }
    }
}
