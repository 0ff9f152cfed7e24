//! `auth` of a server: who gives the tokens that it wants, and for what.

use crate::manifest::node::Node;
use crate::manifest::settings::packages::is_safe;
use crate::manifest::settings::reader::Reader;
use crate::manifest::{McpAuth, McpGrant, McpValue};

impl Reader {
    /// Returns what `auth` says, which is the only header of its kind.
    pub(super) fn take_auth(&mut self, auth: &Node, headers: &[(String, McpValue)]) -> McpAuth {
        let text = |key| auth.text(&[key]).map(str::to_owned);
        let is_machine = auth.text(&["type"]) == Some("client-credentials");
        let registers = auth.flag(&["register"]).unwrap_or(false);
        let read = McpAuth {
            issuer: text("issuer").unwrap_or_default(),
            grant: match is_machine {
                true => McpGrant::ClientCredentials,
                false => McpGrant::AuthorizationCode,
            },
            client_id: text("client_id"),
            secret: text("secret"),
            scopes: auth.texts(&["scopes"]).map(|(_, text)| text.to_owned()).collect(),
        };
        if !is_safe(&read.issuer) {
            let help = "write `https://host[:port]/path`; `http://` on this machine only; no user name, query or fragment";
            self.refuse(auth.place(&["issuer"]), "`issuer` is nobody who may give tokens", help);
        }
        if read.client_id.is_some() == registers {
            let help = "write the `client_id` that the issuer has given you, or `register: true` for one that the host asks for itself at each login";
            self.refuse(&auth.at, "it is not plain which client logs in", help);
        }
        if is_machine && (read.secret.is_none() || registers) {
            let help = "write `client_id:`, and `secret:` with the name under which `clawhost secrets` has its secret";
            self.refuse(&auth.at, "`type: client-credentials` without both of them", help);
        }
        if registers && read.secret.is_some() {
            let help = "take the `secret` out: who registers itself has none";
            self.refuse(&auth.at, "a secret for a client that does not exist yet", help);
        }
        if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
            let help = "keep `auth`, or what sets the header";
            self.refuse(&auth.at, "the header `Authorization` is there twice", help);
        }
        if let Some((node, _)) = auth.texts(&["scopes"]).find(|(_, text)| !is_scope(text)) {
            self.refuse(&node.at, "this is no scope", "write each one by itself, without spaces");
        }
        read
    }
}

/// As RFC 6749 has it (3.3).
fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\'))
}
