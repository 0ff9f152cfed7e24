//! `oci` and `signed_by`: who is asked for components, as whom, and whose signatures count.

use std::collections::BTreeMap;

use url::Url;

use super::Settings;
use super::reader::Reader;
use crate::egress;
use crate::grants::is_secret_name;
use crate::manifest::Manifest;
use crate::manifest::node::{Entry, Node};
use crate::manifest::shape::shown;
use crate::package::{VerifyingKey, read_registry};

/// One of `oci`: what a registry of OCI artifacts gets beside its name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OciSettings {
    /// The user name, and the name of the secret that is the password or token.
    pub account: Option<(String, String)>,
    /// Where this account is exchanged for a token, where that is another host than the registry.
    pub token_url: Option<String>,
    /// Whether it is asked over plain HTTP; where the file does not say, only on this machine.
    pub http: Option<bool>,
}

impl Reader {
    /// Returns the registries by `host` or `host:port`.
    pub(super) fn take_oci(&mut self, all: &Node) -> BTreeMap<String, OciSettings> {
        all.entries().iter().filter_map(|entry| self.take_oci_registry(entry)).collect()
    }

    fn take_oci_registry(&mut self, entry: &Entry) -> Option<(String, OciSettings)> {
        let node = &entry.node;
        let Some(name) = read_registry(&entry.key).filter(|name| *name == entry.key) else {
            let reason = format!("`{}` is no registry", shown(&entry.key));
            self.refuse(&entry.at, reason, "write `host` or `host:port`, in lower case");
            return None;
        };
        let account = match (node.text(&["user"]), node.text(&["secret"])) {
            (None, None) => None,
            (Some(user), Some(secret)) if is_secret_name(secret) && is_user(user) => {
                Some((user.to_owned(), secret.to_owned()))
            }
            _ => {
                let reason = format!("the account of `{name}` is not whole");
                let help = "write `user:` with a name without `:`, and `secret:` with the name under which `clawhost secrets` has the password";
                self.refuse(&entry.at, reason, help);
                None
            }
        };
        let token_url = node.text(&["token_url"]).map(str::to_owned);
        if token_url.as_deref().is_some_and(|url| !is_safe(url)) {
            // The address itself is not shown: somebody may have put a password into it.
            let help = "write `https://host[:port]/path`; `http://` on this machine only; no user name, query or fragment";
            self.refuse(node.place(&["token_url"]), "`token_url` is no URL for a password", help);
        }
        let http = node.flag(&["http"]);
        Some((name, OciSettings { account, token_url, http }))
    }

    /// Returns the keys at a path.
    pub(super) fn take_keys(&mut self, node: &Node, path: &[&str]) -> Vec<VerifyingKey> {
        let read = |(node, text): (&Node, &str)| match VerifyingKey::parse(text) {
            Ok(key) => Some(key),
            Err(_) => {
                let reason = format!("`{}` is no public key", shown(text));
                self.refuse(&node.at, reason, "write the second line of a `minisign.pub`: RW…");
                None
            }
        };
        node.texts(path).filter_map(read).collect()
    }
}

impl Settings {
    /// Returns every key that somebody's signature is looked for.
    pub fn signing_keys(&self) -> Vec<VerifyingKey> {
        let profiles = self.profiles.values().flat_map(|profile| &profile.signed_by);
        self.tools.signed_by.iter().chain(profiles).cloned().collect()
    }
}

impl Manifest {
    /// As [`Settings::signing_keys`], which were [applied](Settings::apply) to this.
    pub fn signing_keys(&self) -> Vec<VerifyingKey> {
        let profiles = self.profiles.values().flat_map(|profile| &profile.signed_by);
        self.signed_by.iter().chain(profiles).cloned().collect()
    }

    /// Returns the lists of keys of each of which one has to have signed what runs under `profile`,
    /// and what they are called. An empty list wants nothing.
    pub fn signature_wanted(&self, profile: &str) -> [(&[VerifyingKey], String); 2] {
        let own = self.profile(profile).map_or(&[][..], |profile| &profile.signed_by);
        let all = (self.signed_by.as_slice(), "tools.signed_by".to_owned());
        [all, (own, format!("profiles.{profile}.signed_by"))]
    }
}

/// Basic credentials end the name at the first colon.
fn is_user(text: &str) -> bool {
    !text.contains(':') && !text.chars().any(char::is_control)
}

/// Says whether something secret, or something that is run, may come from there or go there:
/// nobody on the way reads or changes it.
pub(super) fn is_safe(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else {
        return false;
    };
    let plain = url.query().is_none() && url.fragment().is_none();
    let here = url.host().is_some_and(egress::is_this_machine);
    let safe = url.scheme() == "https" || (url.scheme() == "http" && here);
    plain && safe && egress::endpoint(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::tests::read_body;
    use super::*;

    #[test]
    fn a_registry_is_known_by_its_host() {
        let settings = read_body(
            "oci:\n  oci.example.com: {user: me, secret: HUB_TOKEN, token_url: \"https://auth.example/token\"}\n  \"lan:5000\": {http: true}",
            &[],
        );
        let oci = settings.unwrap().oci;
        assert_eq!(oci["oci.example.com"].account, Some(("me".to_owned(), "HUB_TOKEN".to_owned())));
        assert_eq!(oci["oci.example.com"].token_url.as_deref(), Some("https://auth.example/token"));
        assert_eq!((oci["lan:5000"].http, oci["oci.example.com"].http), (Some(true), None));
        for (registry, says) in [
            ("\"https://oci.example.com\": {}", "no registry"),
            ("OCI.example.com: {}", "no registry"),
            ("oci.example.com/a: {}", "no registry"),
            ("\"u:hunter2@oci.example.com\": {}", "no registry"),
            ("oci.example.com: {user: me}", "not whole"),
            ("oci.example.com: {secret: HUB_TOKEN}", "not whole"),
            ("oci.example.com: {user: \"a:b\", secret: HUB_TOKEN}", "not whole"),
            ("oci.example.com: {user: me, secret: \"a b\"}", "not whole"),
            ("oci.example.com: {token_url: \"http://auth.example/\"}", "no URL for a password"),
            ("oci.example.com: {password: hunter}", "password"),
        ] {
            let error = read_body(&format!("oci:\n  {registry}"), &[]).unwrap_err();
            assert!(error.contains(says), "{registry}: {error}");
        }
    }

    #[test]
    fn a_key_is_a_public_key() {
        let key = "RWSnqvxjstO2YOryD/mFmpavL6CDNInjJ1d1JBoLQk8vJ27Ip3MXVxUy";
        let text =
            format!("tools: {{signed_by: [{key}]}}\nprofiles: {{none: {{signed_by: [{key}]}}}}");
        let settings = read_body(&text, &[]).unwrap();
        let keys = [VerifyingKey::parse(key).unwrap()];
        assert_eq!(settings.tools.signed_by, keys);
        assert_eq!(settings.profiles["none"].signed_by, keys);
        let error = read_body("tools: {signed_by: [RWx]}", &[]).unwrap_err();
        assert!(error.contains("`RWx` is no public key"), "{error}");
    }
}
