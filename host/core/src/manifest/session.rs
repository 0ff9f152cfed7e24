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
use super::claw::KEYS;
use super::identity::Autonomy;
use super::load::{Surroundings, load_sent};
use super::node;
use super::primitive::PROTOCOL_VERSION;
use super::problem::{DocumentError, INVALID_PARAMS, MANIFEST_INVALID, PRIMITIVE_NOT_FOUND, cut};
use super::profile::Profile;
use super::shape::shown;
use crate::limits::{SESSION_ENTRIES_MAX, SESSION_MANIFEST_BYTES_MAX};
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
    /// Every problem, but no more than about a hundred.
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
        check_size(value)?;
        let value = with_version(value, version);
        let root =
            node::from_json(&value).map_err(|(reason, help)| one_problem("", reason, help))?;
        let profiles = profiles(&value, base);
        let around = Surroundings { directory: Path::new("/"), profiles: &profiles };
        let loaded = load_sent(&root, around);
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

/// Whoever may begin a session may send one: its size is bounded before anything is made of it.
fn check_size(value: &Value) -> Result<(), SessionErrors> {
    if value.to_string().len() > SESSION_MANIFEST_BYTES_MAX {
        let reason = format!("the manifest has more than {SESSION_MANIFEST_BYTES_MAX} bytes");
        return Err(one_problem("", reason, "send less, and keep the rest in the host's manifest"));
    }
    let spec = value.get("spec");
    let entries = |(key, ..): &(&str, _, _)| spec?.get(*key)?.as_array().map(Vec::len);
    if KEYS.iter().filter_map(entries).sum::<usize>() > SESSION_ENTRIES_MAX {
        let reason = format!("the manifest has more than {SESSION_ENTRIES_MAX} entries");
        return Err(one_problem("/spec", reason, "list fewer"));
    }
    Ok(())
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
    one_problem("/kind", "the document is no Claw".to_owned(), "send a document of `kind: Claw`")
}

fn one_problem(at: &str, reason: String, help: &str) -> SessionErrors {
    let problem = SessionProblem { at: at.to_owned(), reason, help: Some(help.to_owned()) };
    SessionErrors { code: MANIFEST_INVALID, problems: vec![problem] }
}

fn refused(value: &Value, errors: &[DocumentError]) -> SessionErrors {
    let problem = |error: &DocumentError| {
        let mut at = node::pointer(value, error.line, escaped).unwrap_or_default();
        cut(&mut at);
        SessionProblem { at, reason: error.reason.clone(), help: error.help.clone() }
    };
    let codes = [INVALID_PARAMS, MANIFEST_INVALID];
    let code = codes.into_iter().find(|code| errors.iter().any(|error| error.code == *code));
    let code = code.unwrap_or(PRIMITIVE_NOT_FOUND);
    SessionErrors { code, problems: errors.iter().map(problem).collect() }
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

    #[test]
    fn a_manifest_is_bounded_before_anything_is_made_of_it() {
        let large = with("/metadata/annotations", json!({"x": "y".repeat(300_000)}));
        let listing = with("/spec/tools", json!(vec![json!({"name": "read-file"}); 101]));
        let deep = (0..100).fold(json!([0, 0]), |inner, _| json!({"k".repeat(80): inner}));
        for (value, says) in [
            (large, "more than 262144 bytes"),
            (listing, "more than 100 entries"),
            (with("/metadata/annotations", deep), "nested deeper than 32 levels"),
        ] {
            let refused = read(&value).unwrap_err();
            assert_eq!((refused.code, refused.problems.len()), (MANIFEST_INVALID, 1));
            assert!(refused.problems[0].reason.contains(says), "{refused:?}");
        }
    }

    #[test]
    fn however_much_is_wrong_the_answer_is_short() {
        let aliases: Vec<String> = (0..9_000).map(|n| format!("claw://tool/t{n}")).collect();
        let skill = json!([{"inline": {"description": "d", "instruction": "i",
            "tools_required": aliases}}]);
        let keys: serde_json::Map<_, _> =
            (0..9_000).map(|n| (format!("\u{e0001}{n}"), json!(1))).collect();
        for value in [with("/spec/skills", skill), with("/spec/identity/inline", json!(keys))] {
            let refused = read(&value).unwrap_err();
            assert_eq!(refused.problems.len(), 101);
            assert!(format!("{refused:?}").len() < 200_000);
        }
    }

    #[test]
    fn what_json_allows_in_a_text_is_read() {
        let mut value = minimal();
        value["metadata"]["annotations"] = json!({"x": "\u{7f}", "k".repeat(2_000): 1});
        assert!(read(&value).is_ok());
    }
}
