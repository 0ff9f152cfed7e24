//! Definition files: what the operator says about single tools beside their documents, which the
//! protocol has no place for: when to try again, which hosts a call is kept to, what it costs, what
//! has to hold before and after it, how often arguments may be wrong. `schema` has a place there, too, and
//! is here for tools that have no document.
//!
//! The runtime file names them; they are closed like it. Nothing in them grants anything.

mod composite;
mod network;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use self::composite::{COMPOSITE, METADATA};
use self::network::NETWORK;
pub use self::network::NetworkPolicy;
use super::keywords;
use super::node::{self, Entry, Node, Place};
use super::problem::{DocumentError, Problems, choices, near, nearest};
use super::shape::{self, ANY, COUNT, OBJECT, SHARE, Shape, TEXT, opt, req, shape, shown, up_to};
use super::tool::{self, ToolBinding};
use crate::bridged;
use crate::catalog::{Tool, ckp_name, declares};
use crate::composite::{Composite, CompositeBounds};
use crate::contract::{Condition, Contract, JsonType, Root, Test};
use crate::limits::{CONTRACT_CONDITIONS_MAX, RETRY_DELAY_CEILING_MS, RETRY_POLICY_ATTEMPTS_MAX};
use crate::quarantine::ImmuneSettings;
use crate::retry::{Backoff, RetryOn, RetryPlan};

/// The version of the format.
const VERSION: u64 = 1;
/// More than a wait can grow by in one step.
const MULTIPLIER: Shape = Shape::Real { max: 10.0 };
/// More refused calls than this in a row are no repair.
const ATTEMPTS: Shape = up_to(100);
/// More calls of one tool in a minute are no bound.
const CALLS: Shape = up_to(1_000_000);
/// The most one call may be said to cost, in US dollars: more is a typing error.
const USD: Shape = Shape::Real { max: 1_000.0 };

shape! { CONDITION = {
    field!: TEXT,
    operator!: ["exists" | "not_empty" | "matches_type" | "equals" | "contains"],
    value: ANY,
}}

shape! { TOOL = {
    composite: COMPOSITE,
    contract: { preconditions: [CONDITION], postconditions: [CONDITION] },
    cost_hint: { class: TEXT, latency_ms: COUNT, tokens: COUNT, usd_per_call: USD },
    metadata: METADATA,
    network_policy: NETWORK,
    rate_policy: { calls_per_minute!: CALLS },
    repair_policy: { max_attempts!: ATTEMPTS },
    retry_policy: {
        max_attempts!: STEP_ATTEMPTS,
        initial_ms: (up_to(RETRY_DELAY_CEILING_MS)),
        multiplier: MULTIPLIER,
        max_ms: (up_to(RETRY_DELAY_CEILING_MS)),
        jitter: SHARE,
        retry_on: [+ ["timeout" | "unavailable" | "rate_limited"]],
    },
    schema: OBJECT,
}}

shape! { FILE = {
    version!: (Shape::Int { min: VERSION, max: VERSION }),
    tools!: (Shape::Dict(&TOOL)),
}}

/// Where a definition has schemas.
const SCHEMAS: [&[&str]; 3] =
    [&["schema"], &["composite", "input_schema"], &["metadata", "input_schema"]];

/// How often something may be tried.
const STEP_ATTEMPTS: Shape = Shape::Int { min: 1, max: RETRY_POLICY_ATTEMPTS_MAX };

/// What a result that breaks a postcondition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PostconditionMode {
    /// A failed result.
    #[default]
    Enforce,
    /// A result, and a line in the record.
    Warn,
}

/// What the operator says about one tool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Definition {
    /// When to try again.
    retry: Option<RetryPlan>,
    /// The operator wrote which failures are worth it: the tool need not be idempotent.
    is_stated: bool,
    /// What it is made of, where it is no tool of its own.
    pub composite: Option<Arc<Composite>>,
    /// What a call may reach of the network, of what its profile grants.
    pub network: Option<NetworkPolicy>,
    /// JSON Schema that arguments have to match beside those of the tool and its documents.
    pub schema: Option<Value>,
    /// What has to hold before and after a call.
    pub contract: Contract,
    /// What a call costs, as it was written, for the record.
    pub cost_hint: Option<Value>,
    /// Refused calls in a row after which an agent is no longer told what is wrong.
    pub repair_attempts_max: Option<u32>,
    /// Calls that each caller may make in a minute.
    pub calls_per_minute: Option<u64>,
}

/// What the runtime file and definition files say about calls, beside the documents.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Governance {
    pub(super) definitions: BTreeMap<String, Arc<Definition>>,
    /// What breaking a postcondition means.
    pub postconditions: PostconditionMode,
    /// How large composites may be.
    pub composites: CompositeBounds,
    /// When tools go into quarantine.
    pub immune: ImmuneSettings,
    /// Every tool that is named, as a CKP name, and where.
    pub(super) named: Vec<(String, Place)>,
    /// What in the definition files does less than its author may think, for people.
    pub notes: Vec<String>,
}

impl Definition {
    fn plan(&self, declared: &Map<String, Value>) -> Option<RetryPlan> {
        let may = self.is_stated || declares(declared, "idempotentHint");
        self.retry.map(|plan| if may { plan } else { RetryPlan::ONCE })
    }
}

impl Governance {
    /// Returns what is said about the tool of a CKP name.
    pub fn definition(&self, name: &str) -> Option<&Arc<Definition>> {
        self.definitions.get(name)
    }

    /// Settles what holds for a tool: what is said here by either of its names, else what the version of
    /// the registry says that it is of. It is tried again as that says, where the tool is declared idempotent
    /// or that says for which failures; else as its document says.
    pub fn bind(&self, tool: &mut Tool) {
        let own = tool.names().iter().find_map(|name| self.definitions.get(name));
        tool.governed = own.cloned().or_else(|| tool.governed.take());
        let plan = tool.governed.as_ref().and_then(|own| own.plan(&tool.declared));
        tool.retry = plan.unwrap_or(tool.retry);
    }

    /// Returns a problem for each tool that is named and is none of `names`. Where it `may_come` from
    /// somebody who has not said yet what there is, it is one where it is nearly called like one of them.
    pub fn strays(&self, names: &[String], may_come: impl Fn(&str) -> bool) -> Vec<DocumentError> {
        let is_stray = |name: &str| {
            let is_slip = || nearest(name, names.iter().map(String::as_str)).is_some();
            !names.iter().any(|of| of == name) && (!may_come(name) || is_slip())
        };
        let stray = |(name, at): &(String, Place)| {
            let reason = format!("no tool is called `{}`", shown(name));
            at.missing(reason, near(name, names.iter().map(String::as_str)))
        };
        self.named.iter().filter(|(name, _)| is_stray(name)).map(stray).collect()
    }

    /// Says which retry policies do nothing, for people.
    pub fn idle<'a>(tools: impl Iterator<Item = &'a Tool>) -> impl Iterator<Item = String> {
        let idles = |tool: &&Tool| {
            let own = tool.governed.as_ref().filter(|own| own.retry.is_some());
            own.is_some_and(|own| own.plan(&tool.declared) == Some(RetryPlan::ONCE))
        };
        tools.filter(idles).map(|tool| format!(
            "the `retry_policy` of `{}` does nothing: write `annotations: {{ idempotentHint: true }}` in its Tool document, or say with `retry_on` which failures are worth it",
            tool.ckp_name
        ))
    }

    /// Returns what a definition file says of each tool, as it was written; a composite under `composite`.
    ///
    /// # Errors
    /// Every problem of the file.
    pub fn written(
        file: &Path,
        bytes: &[u8],
    ) -> Result<BTreeMap<String, Value>, Vec<DocumentError>> {
        Self::default().read(file, bytes)?;
        let root = node::parse(file, bytes).map_err(|problem| vec![*problem])?;
        let entries = root.get(&["tools"]).map(Node::entries).unwrap_or_default().iter();
        Ok(entries.map(|entry| (entry.key.clone(), composite::written(&entry.node))).collect())
    }

    /// Says which steps of composites would be tried again and may not be, for people.
    pub fn idle_steps<'a>(
        &'a self,
        find: impl Fn(&str) -> Option<&'a Arc<Tool>> + 'a,
    ) -> impl Iterator<Item = String> {
        let steps = self.composites().flat_map(|own| own.steps.iter().map(move |step| (own, step)));
        steps.filter_map(move |(own, step)| {
            let tool = find(&step.tool).filter(|_| step.max_attempts.is_some_and(|max| max > 1))?;
            (!tool.may_retry()).then(|| format!(
                "the `max_attempts` of step `{}` of `{}` does nothing: `{}` is not declared idempotent",
                step.key, own.name, step.tool
            ))
        })
    }

    /// Returns every tool that is made of others.
    pub fn composites(&self) -> impl Iterator<Item = &Arc<Composite>> {
        self.definitions.values().filter_map(|own| own.composite.as_ref())
    }

    /// Gives composites what their Tool documents say of them, once all files are read.
    ///
    /// # Errors
    /// Which composites can run with no tools there are: they call themselves, are too deep or too long,
    /// or call what their skill does not have.
    pub fn settle(&mut self, tools: &[ToolBinding]) -> Result<(), Vec<DocumentError>> {
        let mut problems = Problems::default();
        composite::settle(&mut self.definitions, self.composites, tools, &mut problems);
        problems.finish(Some(()))
    }

    /// Adds what a definition file says.
    ///
    /// # Errors
    /// Every problem of the file.
    pub fn read(&mut self, file: &Path, bytes: &[u8]) -> Result<(), Vec<DocumentError>> {
        let mut problems = Problems::default();
        match node::parse(file, bytes) {
            Ok(root) => self.take(&root, &mut problems),
            Err(problem) => problems.push(*problem),
        }
        problems.finish(Some(()))
    }

    fn take(&mut self, root: &Node, problems: &mut Problems) {
        if let Some(claw) = root.entry("claw") {
            let reason = "this is a CKP document and no definition file";
            let help = "name it among the documents; a definition file begins with `version: 1`";
            problems.invalid(&claw.at, reason, help);
            return;
        }
        if !shape::check(problems, root, &FILE, "") {
            return;
        }
        for entry in root.get(&["tools"]).map(Node::entries).unwrap_or_default() {
            let name = bridged::dotted(&entry.key).unwrap_or_else(|| ckp_name(&entry.key));
            if self.definitions.contains_key(&name) {
                let first = self.named.iter().rev().find(|(of, _)| *of == name);
                let first = first.map(|(_, at)| format!("; first at {at}")).unwrap_or_default();
                let reason = format!("`{}` is defined a second time{first}", shown(&entry.key));
                problems.invalid(&entry.at, reason, "define each tool once, in one file");
            }
            let definition = Reader(problems).definition(entry);
            let schemas = SCHEMAS.iter().filter_map(|path| entry.node.get(path));
            let misspelt = schemas.flat_map(keywords::misspelt_in);
            self.notes.extend(misspelt.map(|keyword| keyword.note()));
            self.definitions.insert(name.clone(), Arc::new(definition));
            self.named.push((name, entry.at.clone()));
        }
    }
}

struct Reader<'a>(&'a mut Problems);

impl Reader<'_> {
    fn definition(&mut self, entry: &Entry) -> Definition {
        let node = &entry.node;
        let attempts = node.number(&["repair_policy", "max_attempts"]);
        Definition {
            retry: node.get(&["retry_policy"]).map(|policy| self.retry(policy)),
            is_stated: node.get(&["retry_policy", "retry_on"]).is_some(),
            composite: self.composed(entry),
            network: node.get(&["network_policy"]).map(|policy| self.network(policy)),
            schema: node.entry("schema").map(|entry| self.schema(entry)),
            contract: Contract {
                preconditions: self.conditions(node, "preconditions", Root::Args),
                postconditions: self.conditions(node, "postconditions", Root::Result),
            },
            cost_hint: node.get(&["cost_hint"]).map(Node::to_json),
            repair_attempts_max: attempts.and_then(|max| u32::try_from(max).ok()),
            calls_per_minute: node.number(&["rate_policy", "calls_per_minute"]),
        }
    }

    fn schema(&mut self, entry: &Entry) -> Value {
        tool::check_arguments(entry, self.0);
        entry.node.to_json()
    }

    fn retry(&mut self, policy: &Node) -> RetryPlan {
        let default = RetryPlan::default();
        let number = |key, default| policy.number(&[key]).unwrap_or(default);
        let thousandths = |key, default| policy.real(&[key]).map_or(default, permille);
        let plan = RetryPlan {
            max_attempts: number("max_attempts", 1),
            backoff: Backoff::Exponential,
            initial_delay_ms: number("initial_ms", default.initial_delay_ms),
            multiplier_permille: thousandths("multiplier", default.multiplier_permille),
            delay_max_ms: number("max_ms", default.delay_max_ms),
            jitter_permille: thousandths("jitter", default.jitter_permille),
            on: policy.get(&["retry_on"]).map_or(default.on, |_| retry_on(policy)),
        };
        if plan.multiplier_permille < permille(1.0) {
            let at = policy.place(&["multiplier"]);
            let help = "write 1 or more: waits do not get shorter";
            self.0.invalid(at, "`multiplier` is less than 1", help);
        }
        if plan.delay_max_ms < plan.initial_delay_ms {
            let reason =
                format!("`max_ms` is less than the first wait, {} ms", plan.initial_delay_ms);
            let help = "write the longest wait, or a shorter `initial_ms`";
            self.0.invalid(policy.place(&["max_ms"]), reason, help);
        }
        plan
    }

    fn conditions(&mut self, tool: &Node, key: &str, root: Root) -> Vec<Condition> {
        let all = tool.list(&["contract", key]);
        if let Some(more) = all.get(CONTRACT_CONDITIONS_MAX) {
            let reason = format!("more than {CONTRACT_CONDITIONS_MAX} `{key}`");
            self.0.invalid(&more.at, reason, "a schema says more in less");
        }
        all.iter().filter_map(|condition| self.condition(condition, root)).collect()
    }

    fn condition(&mut self, node: &Node, root: Root) -> Option<Condition> {
        let (field, operator) = (node.text(&["field"])?, node.text(&["operator"])?);
        let test = match test(operator, node.get(&["value"])) {
            Ok(test) => test,
            Err((reason, help)) => {
                let at = node.place(&["value"]);
                self.0.invalid(at, format!("`{operator}` {reason}"), help);
                return None;
            }
        };
        let condition = Condition::new(root, field, test);
        if condition.is_none() {
            let word = root.word();
            let reason = format!("`{}` is no field of `{word}`", shown(field));
            let help = format!("write `{word}`, or `{word}.` and keys with dots between them");
            self.0.invalid(node.place(&["field"]), reason, help);
        }
        condition
    }
}

fn test(operator: &str, value: Option<&Node>) -> Result<Test, (&'static str, String)> {
    let none = |test| match value {
        None => Ok(test),
        Some(_) => Err(("takes no value", "take `value` out".to_owned())),
    };
    let one =
        || value.map(Node::to_json).ok_or_else(|| ("needs a value", "add `value:`".to_owned()));
    match operator {
        "contains" => one().map(Test::Contains),
        "equals" => one().map(Test::Equals),
        "matches_type" => {
            let name = one()?;
            let name = name.as_str().unwrap_or_default();
            let names = || choices(name, JsonType::ALL.map(JsonType::name));
            JsonType::named(name)
                .map(Test::MatchesType)
                .ok_or_else(|| ("knows no such type", names()))
        }
        "not_empty" => none(Test::NotEmpty),
        // The shape knows no other operator.
        _ => none(Test::Exists),
    }
}

fn retry_on(policy: &Node) -> RetryOn {
    let has = |name: &str| policy.texts(&["retry_on"]).any(|(_, text)| text == name);
    RetryOn {
        rate_limited: has("rate_limited"),
        timeout: has("timeout"),
        unavailable: has("unavailable"),
    }
}

/// A thousandth of a second is to a second what a thousandth is to one.
fn permille(real: f64) -> u64 {
    let seconds = Duration::try_from_secs_f64(real).unwrap_or_default();
    u64::try_from(seconds.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
