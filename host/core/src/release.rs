//! Versions of the registry: immutable sets of tool definitions, told by the hash of what they say.
//!
//! The hash is sha256 over the definitions in the canonical form of RFC 8785, sorted by name. Numbers,
//! times and who made a version are no part of it: the same content is the same version. Deliberately
//! absent: what binds a tool. Which profile it runs under and which policy governs it is for the
//! manifest of the host that serves it, so no version grants anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::catalog::{ToolDefinition, check_name, ckp_name};
use crate::limits::{RELEASE_BYTES_MAX, RELEASE_TOOLS_MAX};
use crate::manifest::{Definition, DocumentError, Governance};
use crate::{bridged, digest, json};

/// The keys of a definition that its component says.
const DESCRIBED: [&str; 6] =
    ["annotations", "description", "input_schema", "name", "output_schema", "title"];

/// One version's tools.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Release {
    tools: Vec<Released>,
}

/// One tool of a version.
#[derive(Debug, Clone, PartialEq)]
pub struct Released {
    /// Its own name, for example `word_count`.
    pub name: String,
    /// What runs it; nothing where it is made of other tools.
    pub code: Option<ReleasedCode>,
    /// What a definition file says of it.
    pub said: Map<String, Value>,
}

/// The component of a tool, and what is said of the tool by it and beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleasedCode {
    /// What the component says.
    pub definition: ToolDefinition,
    /// The digest of the component's binary.
    pub component: String,
    /// The signature that lay beside it.
    pub signature: Option<String>,
    /// The Tool document that lay beside it, without profile and policy.
    pub document: Option<Value>,
}

impl Release {
    /// Returns a version of these tools.
    ///
    /// # Errors
    /// There are none or too many, two are called alike, or one as no tool can be.
    pub fn new(mut tools: Vec<Released>) -> Result<Self, String> {
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        if tools.is_empty() || tools.len() > RELEASE_TOOLS_MAX {
            return Err(format!("it has {} tools, of 1 to {RELEASE_TOOLS_MAX}", tools.len()));
        }
        let mut seen = BTreeSet::new();
        for Released { name, .. } in &tools {
            check_name(name)?;
            if !seen.insert(ckp_name(name).to_ascii_lowercase()) {
                return Err(format!("two of its tools are called `{name}`"));
            }
        }
        let release = Self { tools };
        match release.canonical().len() {
            bytes if bytes > RELEASE_BYTES_MAX => {
                Err(format!("its definitions are over {RELEASE_BYTES_MAX} bytes"))
            }
            _ => Ok(release),
        }
    }

    /// Reads what was kept under `hash`.
    ///
    /// # Errors
    /// It is not what was kept: a byte of it differs.
    pub fn read(text: &str, hash: &str) -> Result<Self, String> {
        let is = digest::of_bytes(text.as_bytes());
        if is != hash {
            return Err(format!("its definitions have the hash {is}, not {hash}"));
        }
        let value = json::parse(text.as_bytes()).map_err(|error| error.to_string())?;
        let tools = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let tools = tools.iter().map(Released::read).collect::<Option<Vec<_>>>();
        let release = Self::new(tools.ok_or("it holds something else than definitions of tools")?)?;
        match release.canonical() == text {
            true => Ok(release),
            false => Err("its definitions are in another form than is kept".to_owned()),
        }
    }

    /// Returns its definitions as they are kept and hashed.
    pub fn canonical(&self) -> String {
        digest::canonical(&self.tools.iter().map(Released::to_json).collect())
    }

    /// Returns `sha256:…` of [`canonical`](Self::canonical).
    pub fn hash(&self) -> String {
        digest::of_bytes(self.canonical().as_bytes())
    }

    /// Returns its tools by name.
    pub fn tools(&self) -> &[Released] {
        &self.tools
    }

    /// Returns the digests of its components.
    pub fn components(&self) -> BTreeSet<&str> {
        let code = self.tools.iter().filter_map(|tool| tool.code.as_ref());
        code.map(|code| code.component.as_str()).collect()
    }

    /// Returns what its definition files say, by CKP name.
    ///
    /// # Errors
    /// What is wrong with it, or unknown to this host.
    pub fn definitions(&self) -> Result<BTreeMap<String, Arc<Definition>>, String> {
        let mut all = Governance::default();
        let told = |problems: Vec<DocumentError>| {
            problems.first().map(DocumentError::one_line).unwrap_or_default()
        };
        let said = || self.tools.iter().filter(|tool| !tool.said.is_empty());
        for Released { name, said, .. } in said() {
            let file = json!({"version": 1, "tools": {name: said}}).to_string();
            all.read(Path::new("the registry"), file.as_bytes()).map_err(told)?;
        }
        all.settle(&[]).map_err(told)?;
        let of = |name: String| Some((name.clone(), Arc::clone(all.definition(&name)?)));
        Ok(said().filter_map(|tool| of(ckp_name(&tool.name))).collect())
    }

    /// Returns what differs in `other`, a line for each thing taken out and each put in.
    pub fn changes(&self, other: &Self) -> Vec<String> {
        bridged::changes(&self.by_name(), &other.by_name())
    }

    fn by_name(&self) -> Value {
        self.tools.iter().map(|tool| (tool.name.clone(), tool.to_json())).collect()
    }
}

impl Released {
    /// Returns it as it is kept: one object, in which what is said stands beside what it is.
    pub fn to_json(&self) -> Value {
        let mut all = self.said.clone();
        all.insert("name".to_owned(), json!(self.name));
        if let Some(ReleasedCode { definition, component, signature, document }) = &self.code {
            if let Ok(Value::Object(described)) = serde_json::to_value(definition) {
                all.extend(described);
            }
            all.insert("component".to_owned(), json!(component));
            all.extend(signature.as_ref().map(|text| ("signature".to_owned(), json!(text))));
            all.extend(document.as_ref().map(|of| ("document".to_owned(), of.clone())));
        }
        Value::Object(all)
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
    fn read(value: &Value) -> Option<Self> {
        let mut said = value.as_object()?.clone();
        let name = said.get("name")?.as_str()?.to_owned();
        let Some(component) = said.remove("component") else {
            said.remove("name");
            return Some(Self { name, code: None, said });
        };
        let described = DESCRIBED.into_iter().filter_map(|key| said.remove_entry(key)).collect();
        let text = |value: Value| value.as_str().map(str::to_owned);
        let code = ReleasedCode {
            definition: serde_json::from_value(Value::Object(described)).ok()?,
            component: text(component).filter(|component| digest::is_digest(component))?,
            signature: said.remove("signature").map_or(Some(None), |of| text(of).map(Some))?,
            document: said.remove("document"),
        };
        Some(Self { name, code: Some(code), said })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Annotations;

    fn tool(name: &str) -> Released {
        let definition = ToolDefinition {
            name: name.to_owned(),
            title: None,
            description: "Counts.".to_owned(),
            input_schema: json!({"type": "object", "b": 1, "a": 2}),
            output_schema: None,
            annotations: Annotations { read_only: Some(true), ..Annotations::default() },
        };
        let code = ReleasedCode {
            definition,
            component: digest::of_bytes(name.as_bytes()),
            signature: Some("untrusted comment".to_owned()),
            document: Some(json!({"kind": "Tool"})),
        };
        let said = json!({"cost_hint": {"tokens": 5}}).as_object().unwrap().clone();
        Released { name: name.to_owned(), code: Some(code), said }
    }

    #[test]
    fn the_order_of_tools_is_nothing_and_every_byte_of_them_is() {
        let release = Release::new(vec![tool("b"), tool("a")]).unwrap();
        assert_eq!(release.hash(), Release::new(vec![tool("a"), tool("b")]).unwrap().hash());
        let mut other = tool("a");
        other.said.insert("cost_hint".to_owned(), json!({"tokens": 6}));
        let other = Release::new(vec![other, tool("b")]).unwrap();
        assert_ne!(release.hash(), other.hash());
        assert_eq!(
            release.changes(&other),
            ["- /a/cost_hint/tokens: 5", "+ /a/cost_hint/tokens: 6"]
        );
    }

    #[test]
    fn what_was_kept_is_read_and_nothing_else_is() {
        let plain = Released { name: "c".to_owned(), code: None, said: Map::new() };
        let release = Release::new(vec![tool("a"), plain]).unwrap();
        let (text, hash) = (release.canonical(), release.hash());
        assert_eq!(Release::read(&text, &hash).unwrap(), release);
        let edited = text.replace("Counts.", "counts.");
        assert!(Release::read(&edited, &hash).unwrap_err().contains("have the hash"));
        // What somebody hashed anew has to have the form of what is kept all the same.
        for wrong in [
            text.replacen('[', "[ ", 1),
            "[]".to_owned(),
            "{}".to_owned(),
            "[{\"name\":1}]".to_owned(),
            "[{\"component\":\"sha256:0\",\"name\":\"a\"}]".to_owned(),
            "[{\"name\":\"a\"},{\"name\":\"A\"}]".to_owned(),
            "[{\"name\":\"b\"},{\"name\":\"a\"}]".to_owned(),
            "[{\"name\":\"x\\u001b[2J\"}]".to_owned(),
        ] {
            let hash = digest::of_bytes(wrong.as_bytes());
            assert!(Release::read(&wrong, &hash).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_said_of_tools_is_read_as_from_a_definition_file() {
        let mut told = tool("word_count");
        told.said.insert("repair_policy".to_owned(), json!({"max_attempts": 2}));
        let said = Release::new(vec![told.clone()]).unwrap().definitions().unwrap();
        assert_eq!(said["word-count"].repair_attempts_max, Some(2));
        told.said.insert("permissions".to_owned(), json!("all"));
        let error = Release::new(vec![told]).unwrap().definitions().unwrap_err();
        assert!(error.contains("unknown key `permissions`"), "{error}");
    }
}
