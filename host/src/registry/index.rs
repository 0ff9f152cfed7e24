//! What a registry says it holds under one address: the one JSON document of its HTTP API, which
//! REGISTRY.md explains. The client and the server share it.

use clawhost_core::digest::is_digest;
use clawhost_core::json;
use clawhost_core::limits::SIGNATURE_BYTES_MAX;
use clawhost_core::uri::{Kind, RegistryUri, is_declared_name};
use serde::{Deserialize, Serialize};

/// What is published under `claw://registry/{namespace}/{name}@{version}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Index {
    /// Whose it is.
    pub(crate) namespace: String,
    /// What it is called.
    pub(crate) name: String,
    /// Which version.
    pub(crate) version: String,
    /// The document's `kind`, for example `Tool`.
    pub(crate) kind: String,
    /// The document.
    pub(crate) document: Part,
    /// The component of a Tool, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) component: Option<Part>,
    /// The text of the component's signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signature: Option<String>,
}

/// One of the two things that can be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    /// `sha256:` and 64 hex digits.
    pub(crate) digest: String,
    /// Its length.
    pub(crate) bytes: u64,
}

impl Index {
    /// Reads an index and checks that it is about `uri`.
    ///
    /// # Errors
    /// Says what is wrong, as the end of a sentence that begins with the registry.
    pub(crate) fn read(bytes: &[u8], uri: &RegistryUri) -> Result<Self, String> {
        let value = json::parse(bytes).map_err(|error| format!("sent no index: {error}"))?;
        let index: Self =
            serde_json::from_value(value).map_err(|error| format!("sent no index: {error}"))?;
        if (&index.namespace, &index.name, &index.version)
            != (&uri.namespace, &uri.name, &uri.version)
        {
            return Err("sent the index of another address".to_owned());
        }
        let kind = Kind::from_document(&index.kind).ok_or("sent an index of an unknown kind")?;
        if index.component.is_some() && kind != Kind::Tool {
            return Err(format!("has a component for a {kind}, which has no code"));
        }
        let fits = |text: &String| text.len() as u64 <= SIGNATURE_BYTES_MAX;
        if index.signature.as_ref().is_some_and(|text| index.component.is_none() || !fits(text)) {
            return Err("has a signature of nothing, or one that is too long".to_owned());
        }
        let mut parts = std::iter::once(&index.document).chain(&index.component);
        if parts.all(|part| is_digest(&part.digest)) {
            Ok(index)
        } else {
            Err("sent an index with a digest that is none".to_owned())
        }
    }
}

/// Says whether an address can be part of a path or a URL. The grammar lets a namespace be `..`
/// and a name be `-`: no registry has these, as no document can be called so.
pub(crate) fn is_publishable(uri: &RegistryUri) -> bool {
    uri.namespace.starts_with(|c: char| c.is_ascii_alphanumeric()) && is_declared_name(&uri.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::uri::ClawUri;

    fn uri(text: &str) -> RegistryUri {
        match ClawUri::parse(text).unwrap() {
            ClawUri::Registry(uri) => uri,
            ClawUri::Local(_) => panic!("{text} is local"),
        }
    }

    #[test]
    fn what_could_leave_a_folder_is_not_publishable() {
        for text in ["..", ".", ".git", "-a"] {
            assert!(!is_publishable(&uri(&format!("claw://registry/{text}/x@1.0.0"))), "{text}");
        }
        assert!(!is_publishable(&uri("claw://registry/n/-x@1.0.0")));
        for text in ["claw://registry/a.b-c/x@1.0.0-..", "claw://registry/9../X-@01.0.0"] {
            assert!(is_publishable(&uri(text)), "{text}");
        }
    }

    #[test]
    fn an_index_is_about_its_address_and_closed() {
        let asked = uri("claw://registry/n/x@1.0.0");
        let digest = format!("sha256:{}", "0".repeat(64));
        let part = format!(r#"{{"digest":"{digest}","bytes":1}}"#);
        let index = |name: &str, kind: &str, more: &str| {
            format!(
                r#"{{"namespace":"n","name":"{name}","version":"1.0.0","kind":"{kind}","document":{part}{more}}}"#
            )
        };
        let component = format!(r#","component":{part}"#);
        assert!(Index::read(index("x", "Tool", &component).as_bytes(), &asked).is_ok());
        for (text, says) in [
            (index("y", "Tool", ""), "another address"),
            (index("x", "Claw", ""), "unknown kind"),
            (index("x", "Policy", &component), "component for a Policy"),
            (index("x", "Tool", r#","also":1"#), "no index"),
            (index("x", "Tool", r#","signature":"s""#), "a signature of nothing"),
            (
                index("x", "Tool", &format!(r#"{component},"signature":"{}""#, "s".repeat(5_000))),
                "too long",
            ),
            (index("x", "Tool", "").replace("sha256:0", "sha256:G"), "a digest that is none"),
            ("[]".to_owned(), "no index"),
            ("{\"a\":1,\"a\":2}".to_owned(), "no index"),
            (String::new(), "no index"),
        ] {
            let error = Index::read(text.as_bytes(), &asked).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
