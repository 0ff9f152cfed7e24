//! The manifest that a client sends when it begins a session: a Claw as one JSON value.
//!
//! It comes over a wire, so every entry is written inline: a path would read files of the host for
//! a stranger, and an alias never travels (CKP 0.3.0, section 7). The host's own manifest stays
//! the base; a session's can only narrow it. So these things count: its policies, which have to
//! allow each call as well; the tools it lists, where it lists any; an autonomy it states; and its
//! identity's name. The rest is checked and has no effect: its sandbox is the default of tools that
//! name none, and every tool of a host has its profile.
//!
//! Deliberately absent: fetching a manifest by its address. No kind of address names a Claw.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::Manifest;
use super::identity::Autonomy;
use super::load::{Surroundings, load_sent};
use super::primitive::PROTOCOL_VERSION;
use super::problem::{DocumentError, INVALID_PARAMS, MANIFEST_INVALID, PRIMITIVE_NOT_FOUND};
use super::profile::Profile;
use super::shape::shown;
use crate::policy::PolicySet;

/// What a session's manifest narrows.
#[derive(Debug, Clone)]
pub struct SessionManifest {
    /// `metadata.name` of the Claw.
    pub name: String,
    /// What the session's agent is called.
    pub identity: String,
    /// How freely it may act, where it says so.
    pub autonomy: Option<Autonomy>,
    /// Its policies, in order; nothing where it has none and so narrows nothing.
    pub policies: Option<PolicySet>,
    /// The tools it lists; nothing where it lists none and so leaves all.
    pub tools: Option<BTreeSet<String>>,
}

/// Why a session's manifest is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionErrors {
    /// -32602 where anything has a form that a wire does not carry, else the documents' own code.
    pub code: i32,
    /// Every problem.
    pub problems: Vec<SessionProblem>,
}

/// One problem of a session's manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionProblem {
    /// Where: a JSON pointer into the manifest, empty for the whole of it.
    pub at: String,
    /// What is wrong.
    pub reason: String,
    /// What would be right, where that is known.
    pub help: Option<String>,
}

impl SessionManifest {
    /// Reads the manifest of a session that speaks the protocol in `version`. The profiles of
    /// `base` may be referred to.
    ///
    /// `claw` may be left out, as the protocol's own example does: the session's version stands
    /// in for it.
    ///
    /// # Errors
    /// Every problem; see [`SessionErrors::code`].
    pub fn read(value: &Value, version: &str, base: &Manifest) -> Result<Self, SessionErrors> {
        let value = with_version(value, version);
        let profiles = profiles(&value, base);
        let text = serde_json::to_string_pretty(&value).unwrap_or_default();
        let around = Surroundings { directory: Path::new("/"), profiles: &profiles };
        let loaded = load_sent(text.into_bytes(), around);
        let manifest = loaded.map_err(|errors| refused(&value, &errors))?;
        if manifest.supplied_by_host {
            return Err(no_claw());
        }
        Ok(Self::of(&value, manifest))
    }

    fn of(value: &Value, manifest: Manifest) -> Self {
        let listed = |key: &str| {
            value
                .pointer(&format!("/spec/{key}"))
                .and_then(Value::as_array)
                .is_some_and(|list| !list.is_empty())
        };
        let tools = manifest.tools.into_iter().map(|tool| tool.name).collect();
        Self {
            name: manifest.name,
            identity: manifest.identity,
            autonomy: states_autonomy(value).then_some(manifest.autonomy),
            policies: listed("policies").then_some(manifest.policies),
            tools: listed("tools").then_some(tools),
        }
    }
}

/// Puts the version in where it is left out, or is the session's own.
fn with_version(value: &Value, version: &str) -> Value {
    let mut value = value.clone();
    if let Some(object) = value.as_object_mut() {
        let stated = object.get("claw").map(|claw| claw.as_str() == Some(version));
        if stated != Some(false) {
            object.insert("claw".to_owned(), PROTOCOL_VERSION.into());
        }
    }
    value
}

/// The base's profiles, but for one that the session's own sandbox has the name of.
fn profiles(value: &Value, base: &Manifest) -> BTreeMap<String, Profile> {
    let named = value.pointer("/spec/sandbox/metadata/name").and_then(Value::as_str);
    let own = value.pointer("/spec/sandbox").map(|_| named.unwrap_or("sandbox-0"));
    let mut profiles = base.profiles.clone();
    profiles.retain(|name, _| Some(name.as_str()) != own);
    profiles
}

/// The protocol's default is no statement: the base's autonomy holds then.
fn states_autonomy(value: &Value) -> bool {
    ["/spec/identity/inline/autonomy", "/spec/identity/spec/autonomy"]
        .iter()
        .any(|pointer| value.pointer(pointer).is_some())
}

fn no_claw() -> SessionErrors {
    let reason = "the document is no Claw".to_owned();
    let help = Some("send a document of `kind: Claw`".to_owned());
    let problem = SessionProblem { at: "/kind".to_owned(), reason, help };
    SessionErrors { code: MANIFEST_INVALID, problems: vec![problem] }
}

fn refused(value: &Value, errors: &[DocumentError]) -> SessionErrors {
    let mut lines = Vec::new();
    pointers(value, String::new(), &mut lines);
    let problem = |error: &DocumentError| SessionProblem {
        at: lines.get(error.line.saturating_sub(1)).cloned().unwrap_or_default(),
        reason: error.reason.clone(),
        help: error.help.clone(),
    };
    let codes = [INVALID_PARAMS, MANIFEST_INVALID];
    let code = codes.into_iter().find(|code| errors.iter().any(|error| error.code == *code));
    let code = code.unwrap_or(PRIMITIVE_NOT_FOUND);
    SessionErrors { code, problems: errors.iter().map(problem).collect() }
}

/// Notes for each line of the pretty text which value begins or ends there. The last line of the
/// list is the one that is being written.
fn pointers(value: &Value, at: String, lines: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(object) => object.iter().map(|(key, value)| (escaped(key), value)).collect(),
        Value::Array(list) => {
            list.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    lines.push(at.clone());
    for (key, child) in &children {
        pointers(child, format!("{at}/{key}"), lines);
    }
    if !children.is_empty() {
        lines.push(at);
    }
}

/// A key as a JSON pointer has it (RFC 6901).
fn escaped(key: &str) -> String {
    shown(&key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{OneDocument, load};
    use super::*;

    fn base() -> Manifest {
        let profiles = super::super::builtin_profiles(Path::new("/")).unwrap();
        let around = Surroundings { directory: Path::new("/"), profiles: &profiles };
        let document = OneDocument(complete().to_string().into_bytes());
        load(&document, &["manifest".into()], around).unwrap()
    }

    fn complete() -> Value {
        let mut value = minimal();
        value["claw"] = json!("0.3.0");
        value
    }

    fn minimal() -> Value {
        json!({
            "kind": "Claw",
            "metadata": {"name": "visitor"},
            "spec": {
                "identity": {"inline": {"personality": "Visits."}},
                "providers": [{"inline": {
                    "protocol": "openai-compatible", "endpoint": "http://localhost:11434/v1",
                    "model": "none", "auth": {"type": "none"},
                }}],
            },
        })
    }

    fn read(value: &Value) -> Result<SessionManifest, SessionErrors> {
        SessionManifest::read(value, "0.2.0", &base())
    }

    fn with(pointer: &str, inner: Value) -> Value {
        let mut value = minimal();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        value.pointer_mut(parent).unwrap()[key] = inner;
        value
    }

    #[test]
    fn the_smallest_manifest_narrows_nothing() {
        let session = read(&minimal()).unwrap();
        assert_eq!((session.name.as_str(), session.identity.as_str()), ("visitor", "visitor"));
        assert!(session.autonomy.is_none() && session.tools.is_none());
        assert!(session.policies.is_none());
    }

    #[test]
    fn the_version_may_be_left_out_or_be_the_session_s_and_no_other() {
        assert!(read(&complete()).is_ok());
        assert!(read(&with("/claw", json!("0.2.0"))).is_ok());
        let refused = read(&with("/claw", json!("0.9.0"))).unwrap_err();
        assert_eq!((refused.code, refused.problems[0].at.as_str()), (MANIFEST_INVALID, "/claw"));
    }

    #[test]
    fn what_is_stated_narrows() {
        let mut value = with("/spec/tools", json!([{"name": "read-file"}]));
        value["spec"]["identity"]["inline"]["autonomy"] = json!("observer");
        value["spec"]["policies"] = json!([{"inline": {"rules": [
            {"id": "none", "action": "deny", "scope": "all"}]}}]);
        value["spec"]["sandbox"] = json!({"inline": {"level": "wasm"}});
        let session = read(&value).unwrap();
        assert_eq!(session.autonomy, Some(Autonomy::Observer));
        assert_eq!(session.tools, Some(BTreeSet::from(["read-file".to_owned()])));
        assert_eq!(session.policies.unwrap().policies().len(), 1);
    }

    #[test]
    fn what_no_wire_carries_is_refused_with_its_place() {
        let cases = [
            ("/spec/identity", json!("./identity.yaml"), "/spec/identity"),
            ("/spec/tools", json!(["tools/*.yaml"]), "/spec/tools/0"),
            ("/spec/tools", json!(["claw://tool/read-file"]), "/spec/tools/0"),
            ("/spec/tools", json!(["claw://local/tool/read-file"]), "/spec/tools/0"),
            ("/spec/sandbox", json!("mcp://server/tool"), "/spec/sandbox"),
            (
                "/spec/tools",
                json!([{"name": "read-file", "sandbox": "claw://sandbox/none"}]),
                "/spec/tools/0/sandbox",
            ),
            (
                "/spec/tools",
                json!([{"inline": {"description": "d", "input_schema": {},
                    "policy_ref": "claw://policy/x"}}]),
                "/spec/tools/0/inline/policy_ref",
            ),
            (
                "/spec/swarm",
                json!({"inline": {"topology": "pipeline",
                    "agents": [{"identity_ref": "claw://identity/a", "role": "r"}],
                    "coordination": {"message_passing": "queue", "backend": "in-process",
                        "concurrency": {}}, "aggregation": {"strategy": "chain"}}}),
                "/spec/swarm/inline/agents/0/identity_ref",
            ),
        ];
        for (pointer, entry, at) in cases {
            let refused = read(&with(pointer, entry.clone())).unwrap_err();
            let first = refused.problems.first().unwrap();
            assert_eq!((refused.code, first.at.as_str()), (INVALID_PARAMS, at), "{entry}");
        }
    }

    #[test]
    fn what_the_document_lacks_is_said_with_its_place() {
        let mut value = minimal();
        value["spec"]["identity"]["inline"] = json!({"personality": "", "humour": 1});
        let refused = read(&value).unwrap_err();
        assert_eq!(refused.code, MANIFEST_INVALID);
        let places: BTreeSet<&str> = refused.problems.iter().map(|p| p.at.as_str()).collect();
        let expected = ["/spec/identity/inline/humour", "/spec/identity/inline/personality"];
        assert_eq!(places, BTreeSet::from(expected));
        for (value, code) in [
            (json!({}), MANIFEST_INVALID),
            (json!({"kind": "Claw", "metadata": {"name": "a"}, "spec": {}}), MANIFEST_INVALID),
            (
                json!({"kind": "Tool", "metadata": {"name": "a"}, "spec": {"description": "d",
                "input_schema": {"type": "object"}}}),
                MANIFEST_INVALID,
            ),
            (with("/spec/tools", json!(["claw://registry/a/b@1.0.0"])), PRIMITIVE_NOT_FOUND),
            (with("/spec/tools", json!([{"name": "x", "policy": "nobody"}])), PRIMITIVE_NOT_FOUND),
        ] {
            assert_eq!(read(&value).unwrap_err().code, code, "{value}");
        }
    }
}
