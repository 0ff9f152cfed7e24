//! One call's two records: opened before anything is decided, closed before the reply leaves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawhost_core::digest;
use clawhost_core::error::CallError;
use clawhost_core::limits::{AUDIT_RECORD_BYTES_MAX, REPLY_BYTES_MAX};
use clawhost_core::reply::ToolReply;
use clawhost_core::screen::{Action, Finding};
use serde_json::{Value, json};

use super::facts::{Fact, Facts};
use super::findings::Findings;
use super::log::AuditLog;
use super::record::Event;

/// One text of a record, in bytes before it is escaped: six times this still fits the bound
/// of a record.
const TEXT_BYTES_MAX: usize = AUDIT_RECORD_BYTES_MAX / 16;
/// What may be large, in the order in which it is left out.
const MAYBE_LARGE: [&str; 10] = [
    "outputs", "inputs", "violations", "lacks", "egress", "findings", "data", "internal",
    "postcondition", "cost_hint",
];

/// A call that is being recorded. Dropping it unclosed records a cancelled call, so that
/// every received call has exactly one terminal record.
#[derive(Debug)]
pub struct CallSpan {
    log: Arc<AuditLog>,
    facts: Facts,
    found: Findings,
    started: Instant,
    closed: bool,
    /// How long a person was waited for in the latest attempt, if one was asked.
    pub(crate) waited: Option<Duration>,
}

impl CallSpan {
    /// Records that a call arrived. Of one that another one makes, `within` names that and the outermost one.
    ///
    /// # Errors
    /// The record cannot be written; the call must not go on.
    pub fn open(
        log: &Arc<AuditLog>,
        call_id: &str,
        principal: &str,
        tool: &str,
        arguments_digest: &str,
        within: &[(&'static str, &str)],
    ) -> std::io::Result<Self> {
        let who = [("call", call_id), ("principal", principal), ("tool", tool)];
        let mut facts: Facts = who.into_iter().chain(within.iter().copied()).collect();
        facts.set("arguments_digest", arguments_digest);
        log.append(Event::Received, &facts)?;
        Ok(Self {
            log: Arc::clone(log),
            facts,
            found: Findings::default(),
            started: Instant::now(),
            closed: false,
            waited: None,
        })
    }

    /// Returns what the record calls the call.
    pub fn call(&self) -> &str {
        self.facts.text("call").unwrap_or_default()
    }

    /// Returns where screens tell what they find while the call runs.
    pub(crate) const fn found(&self) -> &Findings {
        &self.found
    }

    /// Adds a fact to the closing record: the component's digest, the rule, fuel, violations.
    pub fn note<'f>(&mut self, name: &'static str, fact: impl Into<Fact<'f>>) {
        self.facts.set(name, fact);
    }

    /// Adds the rule that decided. Its id is as long as its author likes, and the call may have run when it is recorded.
    pub(crate) fn note_rule(&mut self, policy: &str, id: &str) {
        self.note("policy", policy);
        if id.len() > TEXT_BYTES_MAX {
            return self.note_text("rule_id", id);
        }
        self.note("rule_id", id);
    }

    /// Adds what the call may touch, in `words`; what is too long is cut, and its digest stands for the rest.
    pub fn note_grants(&mut self, words: &str) {
        if words.len() <= TEXT_BYTES_MAX {
            return self.note("grants", words);
        }
        let (short, rest) = (self.short(words), digest::of_bytes(words.as_bytes()));
        self.note("grants", format!("{short} {rest}"));
    }

    /// Adds what screens found, whether or not it stopped the call, and logs what a policy wants
    /// the operator told.
    pub fn note_findings(&mut self, findings: &[Finding]) {
        if findings.is_empty() {
            return;
        }
        let tool = self.facts.text("tool");
        for Finding { check, policy, what, action } in findings {
            if *action == Action::Warn {
                tracing::warn!(tool, check, policy, "a screen found {what}");
            }
        }
        let shown = findings.iter().map(|finding| {
            json!({"check": finding.check, "policy": finding.policy, "what": finding.what})
        });
        let mut noted = match self.facts.get("findings").map(Value::from) {
            Some(Value::Array(noted)) => noted,
            _ => Vec::new(),
        };
        noted.extend(shown);
        self.note("findings", noted);
    }

    /// Adds the arguments, where a policy wants them in the record.
    pub fn note_inputs(&mut self, arguments: &Value) {
        self.note_json("inputs", arguments);
    }

    /// Adds the result, where a policy wants it in the record: its structured part, else its
    /// texts.
    pub fn note_outputs(&mut self, result: &Value) {
        self.note_json("outputs", result);
    }

    /// A value that is too long is kept as the start of its JSON.
    fn note_json(&mut self, key: &'static str, value: &Value) {
        let text = value.to_string();
        if text.len() <= TEXT_BYTES_MAX {
            self.note(key, value.clone());
        } else {
            self.note_text(key, &text);
        }
    }

    /// Records that the call waits for a person, and why.
    ///
    /// # Errors
    /// The record cannot be written; the call must not go on.
    pub fn approval_asked(&self, reason: &str) -> std::io::Result<()> {
        let mut facts = self.who();
        facts.set("reason", self.short(reason));
        self.log.append(Event::ApprovalAsked, &facts)
    }

    /// Records what was answered, by whom, and how: `operator`, `lease`, `timeout-default`.
    ///
    /// # Errors
    /// The record cannot be written; the call must not go on.
    pub fn approval_answered(&self, approved: bool, by: &str, how: &str) -> std::io::Result<()> {
        let mut facts = self.who();
        facts.set("approved", approved);
        facts.set("by", self.short(by));
        facts.set("how", how);
        self.log.append(Event::ApprovalAnswered, &facts)
    }

    /// Which call it is about, as in its opening record.
    fn who(&self) -> Facts {
        let kept = ["call", "parent", "principal", "tool", "arguments_digest", "policy", "rule_id"];
        let facts = self.facts.iter().filter(|(name, _)| kept.contains(name));
        facts.collect()
    }

    /// Records how the call ended.
    ///
    /// # Errors
    /// The record cannot be written; the reply must not leave.
    pub fn close(mut self, outcome: &Result<ToolReply, CallError>) -> std::io::Result<()> {
        match outcome {
            Ok(reply) => self.note_reply(reply),
            Err(error) => self.note_error(error),
        }
        self.finish()
    }

    fn note_reply(&mut self, reply: &ToolReply) {
        self.note("outcome", if reply.is_error { "tool-error" } else { "ok" });
        // What stays inside, between calls that a tool makes, may be large.
        if reply.bytes() <= REPLY_BYTES_MAX {
            self.note("result_digest", digest::of_json(&reply.result()));
        }
        if let Some(kind) = reply.error_kind {
            self.note("error", kind);
        }
        if let Some(text) = &reply.internal {
            self.note_text("internal", text);
        }
        if let Some(size) = reply.cut_from_bytes {
            self.note("cut_from_bytes", size);
        }
    }

    fn note_error(&mut self, error: &CallError) {
        self.note("outcome", error.kind.name());
        self.note("code", error.kind.code());
        self.note_text("message", &error.message);
        if let Some(text) = &error.internal {
            self.note_text("internal", text);
        }
        if !error.data.is_empty() {
            self.note("data", json!(error.data));
        }
    }

    /// A text from a guest may be megabytes; a record says enough of it.
    fn note_text(&mut self, key: &'static str, text: &str) {
        self.note(key, self.short(text));
    }

    fn short(&self, text: &str) -> String {
        self.log.short(text, TEXT_BYTES_MAX)
    }

    fn finish(&mut self) -> std::io::Result<()> {
        self.closed = true;
        self.note_findings(&self.found.take());
        let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.note("duration_us", micros);
        self.keep_small();
        self.log.append(Event::Finished, &self.facts)
    }

    /// Leaves out what a guest or an author can make large, where the record would be over its bound.
    fn keep_small(&mut self) {
        let large: Vec<&str> =
            MAYBE_LARGE.into_iter().filter(|key| self.facts.get(key).is_some()).collect();
        for key in large {
            if self.facts.bytes() <= AUDIT_RECORD_BYTES_MAX {
                return;
            }
            self.note(key, "left out: the record would be too long");
        }
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        self.note("outcome", "cancelled");
        if let Err(error) = self.finish() {
            tracing::error!("a cancelled call could not be recorded: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek};

    use cap_std::ambient_authority;
    use cap_std::fs::Dir;

    use super::*;
    use crate::audit::Terms;
    use crate::secrets::Secrets;

    fn span(folder: &tempfile::TempDir) -> CallSpan {
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let log = Arc::new(AuditLog::open(&dir, Terms::default()).unwrap());
        CallSpan::open(&log, "1", "p", "fetch", "sha256:0", &[]).unwrap()
    }

    #[test]
    fn what_a_call_may_touch_is_cut_where_it_is_long_and_its_digest_follows() {
        let folder = tempfile::tempdir().unwrap();
        let mut span = span(&folder);
        span.note_grants("reads /x");
        assert_eq!(span.facts.text("grants"), Some("reads /x"));
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        span.note_grants(&long);
        let (short, rest) = span.facts.text("grants").unwrap().split_once(' ').unwrap();
        assert_eq!((short.len(), rest), (TEXT_BYTES_MAX, &*digest::of_bytes(long.as_bytes())));
    }

    #[test]
    fn a_call_that_ran_is_recorded_whatever_its_rule_and_its_definition_say() {
        let folder = tempfile::tempdir().unwrap();
        let mut span = span(&folder);
        span.note_rule("p", "r");
        assert_eq!(span.facts.text("rule_id"), Some("r"));
        let long = "\u{1}".repeat(60_000);
        span.note_rule("p", &long);
        span.note("postcondition", long.clone());
        span.note("cost_hint", json!({"class": long}));
        span.close(&Ok(ToolReply::default())).unwrap();
    }

    #[test]
    fn a_secret_that_lies_across_a_cut_is_in_no_record() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let secrets = Secrets::none();
        secrets.hide("TOKEN", "hidden-value-of-the-test").unwrap();
        let log = AuditLog::open(&dir, Terms::default()).unwrap().without(secrets);
        let mut span = CallSpan::open(&Arc::new(log), "1", "p", "t", "sha256:0", &[]).unwrap();
        let long = "x".repeat(TEXT_BYTES_MAX - 20) + "hidden-value-of-the-test";
        span.note_inputs(&json!([&long]));
        span.note_outputs(&json!([&long]));
        span.note_grants(&long);
        span.approval_asked(&long).unwrap();
        span.approval_answered(true, &long, "operator").unwrap();
        let error = CallError::new(clawhost_core::error::ErrorKind::Internal, "no");
        span.close(&Err(error.with_internal(&long))).unwrap();
        let mut all = String::new();
        for file in dir.entries().unwrap() {
            file.unwrap().open().unwrap().read_to_string(&mut all).unwrap();
        }
        assert!(all.contains("inputs") && all.contains("internal"), "{all}");
        assert!(!all.contains("hidden"), "{all}");
    }

    #[test]
    fn what_was_found_meanwhile_is_recorded_of_a_call_that_was_cancelled_too() {
        let folder = tempfile::tempdir().unwrap();
        let finding = || Finding {
            check: "prompt-injection",
            policy: "strict".to_owned(),
            what: "what was told".to_owned(),
            action: Action::Log,
        };
        for is_cancelled in [false, true] {
            let span = span(&folder);
            span.found().see(vec![finding()]);
            if is_cancelled {
                drop(span);
            } else {
                span.close(&Ok(ToolReply::default())).unwrap();
            }
        }
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let records = crate::audit::records(&dir).unwrap();
        let found: Vec<&Value> = records.iter().filter_map(|it| it.get("findings")).collect();
        let one =
            json!([{"check": "prompt-injection", "policy": "strict", "what": "what was told"}]);
        assert_eq!(found, [&one, &one]);
    }

    #[test]
    fn the_operator_is_told_of_what_a_policy_warns_of_and_of_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let mut span = span(&folder);
        let finding = |action, what: &str| Finding {
            check: "prompt-injection",
            policy: "strict".to_owned(),
            what: what.to_owned(),
            action,
        };
        let mut shown: File = tempfile::tempfile().unwrap();
        let writer = Arc::new(shown.try_clone().unwrap());
        let subscriber = tracing_subscriber::fmt().with_writer(writer).with_ansi(false).finish();
        tracing::subscriber::with_default(subscriber, || {
            span.note_findings(&[finding(Action::Log, "one"), finding(Action::Warn, "two")]);
        });
        let mut text = String::new();
        shown.rewind().unwrap();
        shown.read_to_string(&mut text).unwrap();
        assert!(
            text.contains("WARN") && text.contains("found two") && text.contains("fetch"),
            "{text}"
        );
        assert!(!text.contains("one"), "{text}");
        let findings = Value::from(span.facts.get("findings").unwrap());
        assert_eq!(findings.as_array().map(Vec::len), Some(2));
    }
}
