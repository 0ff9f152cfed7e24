//! The manifest that a client sends when it begins a session: a Claw as one JSON value.
//!
//! It comes over a wire, so an entry is written inline: a path would read files of the host for
//! a stranger, and an alias never travels (CKP 0.3.0, section 7). Tools and the sandbox may also be
//! the addresses of the host's (`claw://local/…`), as all that they do here is narrow. The host's
//! own manifest stays the base; a session's can only narrow it, and whatever it says either narrows
//! or is refused (`stated`). What narrows: its policies, which have to allow each call as well; an
//! autonomy it states; the tools it lists, where it has a list, and what it says about each
//! ([`ToolNarrowing`]); its sandbox, which is that of its tools that name none.
//!
//! What only describes is let through: who the agent is, its models and skills. No tool of this
//! host asks a session's providers, but a session has to have one (CKP 0.3.0, section 6).
//!
//! Deliberately absent: fetching a manifest by its address. No kind of address names a Claw.

mod stated;
mod tool;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

pub use self::tool::ToolNarrowing;
use super::Manifest;
use super::claw::KEYS;
use super::identity::Autonomy;
use super::load::{Surroundings, load_sent};
use super::node;
use super::primitive::PROTOCOL_VERSION;
use super::problem::{DocumentError, INVALID_PARAMS, MANIFEST_INVALID, PRIMITIVE_NOT_FOUND, cut};
use super::profile::Profile;
use super::shape::shown;
use super::tool::ToolBinding;
use super::versions::Versions;
use crate::catalog::Tool;
use crate::limits::{SESSION_ENTRIES_MAX, SESSION_MANIFEST_BYTES_MAX};
use crate::policy::{CallFacts, PolicySet, Verdict};
use crate::uri::Kind;

/// More problems than this help nobody.
const PROBLEMS_MAX: usize = 100;

/// What a session's manifest narrows: made once, when the session begins.
#[derive(Debug)]
pub struct SessionManifest {
    /// `metadata.name` of the Claw.
    pub name: String,
    /// What the session's agent is called.
    pub identity: String,
    /// How freely it may act, where it says so.
    pub autonomy: Option<Autonomy>,
    /// Its policies, in order; absent where it does not list them and so narrows nothing.
    pub policies: Option<PolicySet>,
    /// Its own sandbox, which a call may name as it may the host's; absent where it took one of these.
    pub sandbox: Option<Profile>,
    /// The tools it lists, by their CKP names; absent where it has no list and so leaves all.
    tools: Option<BTreeMap<String, ToolNarrowing>>,
    /// What holds for every tool where it has no list.
    unnamed: ToolNarrowing,
    versions: Versions,
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
        let loaded = load_sent(&root, around, lent(base, &profiles));
        let manifest = loaded.map_err(|errors| refused(&value, &errors))?;
        if manifest.supplied_by_host {
            return Err(no_claw());
        }
        stated::check(&value, &manifest, base)?;
        let help = "write JSON Schemas (draft 2020-12) that are complete in themselves";
        Self::of(&value, manifest).map_err(|reason| one_problem("/spec/tools", reason, help))
    }

    /// Returns how it narrows a tool; nothing where it leaves it out.
    pub fn tool(&self, ckp_name: &str) -> Option<&ToolNarrowing> {
        self.tools.as_ref().map_or(Some(&self.unnamed), |tools| tools.get(ckp_name))
    }

    /// Returns the version of its document of that kind and name, where it has one.
    pub fn version_of(&self, kind: Kind, name: &str) -> Option<&str> {
        self.versions.of(kind, name).flatten()
    }

    /// Decides about a call by the session's own policies, of which `asked` has to allow it too;
    /// nothing where it has none.
    pub fn decide(
        &self,
        facts: &CallFacts<'_>,
        (tool, arguments): (&Tool, Option<&Value>),
        asked: Option<&str>,
    ) -> Option<Verdict> {
        let own = self.tool(facts.tool).unwrap_or(&self.unnamed);
        self.policies.as_ref().map(|rules| own.decide(rules, facts, (tool, arguments), asked))
    }

    fn of(value: &Value, manifest: Manifest) -> Result<Self, String> {
        // An empty list is a statement as well: no tool, and no policy that would allow one.
        let listed = |key: &str| value.pointer(&format!("/spec/{key}")).is_some();
        let profile = |name: &String| manifest.profiles.get(name);
        let sandbox = manifest.default_profile.as_ref().and_then(profile);
        let tool = |(index, of): (usize, ToolBinding)| {
            let states =
                |form: &&str| value.pointer(&format!("/spec/tools/{index}/{form}")).is_some();
            let is_stated =
                ["sandbox", "inline/sandbox_ref", "spec/sandbox_ref"].iter().any(states);
            let profile = if is_stated { profile(&of.sandbox) } else { sandbox };
            Ok((of.name.clone(), ToolNarrowing::of(of, profile)?))
        };
        let tools =
            manifest.tools.into_iter().enumerate().map(tool).collect::<Result<_, String>>()?;
        Ok(Self {
            name: manifest.name,
            identity: manifest.identity,
            autonomy: states_autonomy(value).then_some(manifest.autonomy),
            policies: listed("policies").then_some(manifest.policies),
            tools: listed("tools").then_some(tools),
            unnamed: ToolNarrowing::unnamed(sandbox),
            // Where the paths of the host's own lead was settled when it started.
            sandbox: sandbox.filter(|_| own_sandbox(value).is_some()).cloned(),
            versions: manifest.versions,
        })
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
    let own = own_sandbox(value);
    let mut profiles = base.profiles.clone();
    profiles.retain(|name, _| Some(name.as_str()) != own);
    profiles
}

/// Returns the versions of what a session may name of the base's; `profiles` are those of it.
fn lent(base: &Manifest, profiles: &BTreeMap<String, Profile>) -> Versions {
    let mut versions = base.versions.clone();
    versions.retain(|kind, name| match kind {
        Kind::Sandbox => profiles.contains_key(name),
        _ => kind == Kind::Tool,
    });
    versions
}

/// Returns the name of the sandbox that it has written out; one of the host's is a text.
fn own_sandbox(value: &Value) -> Option<&str> {
    let own = value.pointer("/spec/sandbox").filter(|sandbox| !sandbox.is_string())?;
    Some(own.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("sandbox-0"))
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
mod tests;
