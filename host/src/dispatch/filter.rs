//! What every reply passes on its way out: the result schemas, the known secrets, the screens, and
//! last the size cap.

use std::sync::Arc;

use clawhost_core::error::CallError;
use clawhost_core::limits::SCREENED_AT_ONCE_BYTES_MAX;
use clawhost_core::policy::PolicySet;
use clawhost_core::redact::Redactor;
use clawhost_core::reply::{Content, ToolReply};
use clawhost_core::schema::{Schema, UNCHECKED};
use clawhost_core::screen::{Finding, Tokens};
use clawhost_core::truncate;
use serde_json::Value;

use crate::offload;
use crate::results;

/// What replies of one host are held against.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) redactor: Arc<Redactor>,
    /// What stands in the place of what screens find.
    pub(super) tokens: Tokens,
    pub(super) bytes_max: usize,
    /// What is cut is to be kept.
    pub(super) keeps: bool,
    /// It goes to the call that made it: whole, and with what only results may not hold.
    pub(super) is_nested: bool,
}

/// What passed.
#[derive(Debug, Default)]
pub(super) struct Filtered {
    pub(super) reply: ToolReply,
    /// All that it said, where that is more and is to be kept.
    pub(super) whole: Option<String>,
    /// The reply as results and records may have it, where it left as it was and screens saw it.
    pub(super) masked: Option<ToolReply>,
}

/// What a result has to match.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schemas<'a> {
    /// The tool's own promise.
    pub(super) own: &'a [Arc<Schema>],
    /// What the caller's session wants: where it is not so, the tool has broken nothing.
    pub(super) session: Option<&'a Schema>,
}

const INVALID_RESULT: &str = "the tool's result does not match its output schema";

const UNREADABLE_RESULT: &str =
    "the tool has no structured result, and its text is none that matches its output schema";

const UNCHECKED_RESULT: &str =
    "the tool's result is too large or too deeply nested to be checked against its output schema";

/// Room for saying where the rest is, as one more block.
const KEPT_NOTE_BYTES: usize = 512;

impl Filter {
    /// Returns `reply` checked against the result schemas, without secrets, screened by each of
    /// `policies` and cut to size; and what the screens found.
    pub(super) fn apply(
        &self,
        schemas: Schemas<'_>,
        reply: ToolReply,
        policies: &[&PolicySet],
    ) -> (Result<Filtered, CallError>, Vec<Finding>) {
        let own = schemas.own.iter().map(AsRef::as_ref);
        let reply = own.fold(reply, |reply, schema| check(schema, "invalid-result", reply));
        let session = schemas.session.into_iter();
        let reply = session.fold(reply, |reply, schema| check(schema, "unwanted-result", reply));
        // Searched, or measured and cut, off the threads that serve where it takes long.
        let internal = reply.internal.as_ref().map_or(0, String::len);
        let is_long = reply.bytes().saturating_add(internal) > SCREENED_AT_ONCE_BYTES_MAX;
        offload::blocking(is_long, || self.screened(schemas, reply, policies))
    }

    fn screened(
        &self,
        schemas: Schemas<'_>,
        reply: ToolReply,
        policies: &[&PolicySet],
    ) -> (Result<Filtered, CallError>, Vec<Finding>) {
        let (mut reply, mut findings) = (self.redactor.reply(reply), Vec::new());
        let is_screened = policies.iter().any(|policy| !policy.screens().is_off());
        let unmasked = (self.is_nested && is_screened).then(|| reply.clone());
        for policy in policies {
            let screened = policy.screens().output(reply, &self.tokens);
            findings.extend(screened.findings);
            if let Some(blocked) = screened.blocked {
                return (Err(blocked), findings);
            }
            reply = screened.value;
        }
        let filtered = match unmasked {
            Some(unmasked) => {
                Filtered { reply: unmasked, masked: Some(reply), ..Filtered::default() }
            }
            None if self.is_nested => Filtered { reply, ..Filtered::default() },
            None => self.cut(schemas, reply),
        };
        (Ok(filtered), findings)
    }

    fn cut(&self, schemas: Schemas<'_>, reply: ToolReply) -> Filtered {
        let is_kept = self.keeps && truncate::size_of(&reply) > self.bytes_max;
        let whole = is_kept.then(|| results::whole(&reply)).flatten();
        let note = if whole.is_some() { KEPT_NOTE_BYTES } else { 0 };
        let bytes_max = self.bytes_max.saturating_sub(note);
        let reply = owned_up(schemas, truncate::reply(reply, bytes_max), bytes_max);
        Filtered { reply, whole, ..Filtered::default() }
    }
}

/// Says of a reply that it failed where the cut took away what its schemas promise: clients refuse
/// one that does not keep the promise, and show nothing of it. What is left of the value is text then.
fn owned_up(schemas: Schemas<'_>, mut reply: ToolReply, bytes_max: usize) -> ToolReply {
    let kept = |schema: &Schema| {
        reply.structured.as_ref().is_some_and(|value| offload::check(schema, value).is_ok())
    };
    let is_answer = reply.cut_from_bytes.is_some() && !reply.is_error;
    if !is_answer || schemas.own.iter().map(AsRef::as_ref).chain(schemas.session).all(kept) {
        return reply;
    }
    let value = reply.structured.take();
    if let Some(value) = value.filter(|it| !truncate::is_shown_alone(&reply.content, it)) {
        add_text(&mut reply, &value, bytes_max);
    }
    ToolReply { is_error: true, error_kind: Some("cut-result"), ..reply }
}

/// Adds as much of `value` as fits.
fn add_text(reply: &mut ToolReply, value: &Value, bytes_max: usize) {
    reply.content.push(Content::Text(String::new()));
    let room = bytes_max.saturating_sub(truncate::size_of(reply));
    if let Some(Content::Text(text)) = reply.content.last_mut() {
        text.push_str(truncate::escaped(&value.to_string(), room));
    }
}

/// A result that does not match is a failed result, not an answer. So is one that is not checked,
/// but whether it would match is not known: that is not held against the tool. Text is read where there
/// is nothing else, as many servers have no more, and stands beside it as what was checked.
fn check(schema: &Schema, kind: &'static str, mut reply: ToolReply) -> ToolReply {
    if reply.is_error {
        return reply;
    }
    let has_own = reply.structured.is_some();
    let structured = reply.structured.take().or_else(|| read(&reply));
    let Err(reason) = offload::check(schema, structured.as_ref().unwrap_or(&Value::Null)) else {
        return ToolReply { structured, ..reply };
    };
    let (kind, text) = match (reason == UNCHECKED, has_own) {
        (true, _) => ("unchecked-result", UNCHECKED_RESULT),
        (false, true) => (kind, INVALID_RESULT),
        (false, false) => (kind, UNREADABLE_RESULT),
    };
    ToolReply {
        internal: Some(reason),
        content: vec![Content::Text(text.to_owned())],
        ..ToolReply::error(kind, "")
    }
}

fn read(reply: &ToolReply) -> Option<Value> {
    let is_long = reply.bytes() > SCREENED_AT_ONCE_BYTES_MAX;
    reply.texts().next().map(|_| offload::blocking(is_long, || reply.read()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_that_is_not_checked_is_not_said_to_break_its_schema() {
        let link = |at: u32| {
            let next = json!({"$ref": format!("#/$defs/d{}", at + 1)});
            (format!("d{at}"), json!({"anyOf": [next, next]}))
        };
        let mut definitions: serde_json::Map<String, Value> = (0..30).map(link).collect();
        definitions.insert("d30".to_owned(), json!({"type": "string"}));
        let endless = json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions});
        for (schema, kind, text) in [
            (endless, "unchecked-result", "to be checked"),
            (json!({"required": ["b"]}), "invalid-result", "does not match"),
        ] {
            let schema = Schema::compile(&schema).unwrap();
            let reply = ToolReply { structured: Some(json!({"a": 1})), ..ToolReply::default() };
            let checked = check(&schema, "invalid-result", reply);
            assert_eq!((checked.is_error, checked.error_kind), (true, Some(kind)));
            assert!(checked.texts().collect::<String>().contains(text), "{checked:?}");
        }
    }

    #[test]
    fn text_is_read_where_a_tool_has_no_structured_result() {
        let object = json!({"type": "object", "required": ["a"]});
        let text = json!({"type": "string"});
        for (schema, said, structured) in [
            (&object, Some("{\"a\": 1}"), Some(json!({"a": 1}))),
            (&text, Some("plain"), Some(json!("plain"))),
            (&json!({}), None, None),
            (&object, Some("plain"), None),
            (&object, None, None),
        ] {
            let content = said.iter().map(|text| Content::Text((*text).to_owned())).collect();
            let reply = ToolReply { content, ..ToolReply::default() };
            let checked = check(&Schema::compile(schema).unwrap(), "invalid-result", reply);
            let passes = structured.is_some() || *schema == json!({});
            assert_eq!(
                (checked.is_error, checked.structured.as_ref()),
                (!passes, structured.as_ref())
            );
            let told = checked.texts().any(|text| text.starts_with("the tool has no structured"));
            assert_eq!(told, !passes, "{checked:?}");
        }
    }

    #[test]
    fn a_result_that_was_cut_is_what_its_schema_promises_or_says_that_it_failed() {
        let filter = Filter {
            redactor: Arc::default(),
            tokens: Tokens::default(),
            bytes_max: 4_000,
            keeps: false,
            is_nested: false,
        };
        let cut = |properties: Value, structured: &Value| {
            let schema = json!({"required": ["a"], "properties": {"a": properties}});
            let own = [Arc::new(Schema::compile(&schema).unwrap())];
            let reply = ToolReply { structured: Some(structured.clone()), ..ToolReply::default() };
            filter.cut(Schemas { own: &own, session: None }, reply).reply
        };
        let text = json!({"a": "x".repeat(9_000)});
        let reply = cut(json!({"type": "string"}), &text);
        assert!(!reply.is_error && reply.cut_from_bytes.is_some() && reply.structured.is_some());
        // Too long for other things than texts, and a text that may not be shorter.
        let list = json!({"a": vec![1; 9_000]});
        for (properties, value) in
            [(json!({"type": "array"}), &list), (json!({"minLength": 9_000}), &text)]
        {
            let reply = cut(properties, value);
            assert_eq!((reply.is_error, reply.error_kind), (true, Some("cut-result")));
            assert_eq!(reply.structured, None);
            assert!(reply.texts().collect::<String>().contains("[cut: "), "{reply:?}");
        }
    }

    #[test]
    fn of_a_result_that_was_cut_what_no_text_says_is_shown_and_kept_as_well() {
        let filter = Filter {
            redactor: Arc::default(),
            tokens: Tokens::default(),
            bytes_max: 4_000,
            keeps: true,
            is_nested: false,
        };
        for (a, schema, beginning) in [
            (json!(vec![1; 9_000]), json!({}), r#"{"a":[1,1,"#),
            (json!("x".repeat(9_000)), json!({"minLength": 9_000}), r#"{"a":"xxx"#),
        ] {
            let schema = json!({"required": ["a"], "properties": {"a": schema}});
            let own = [Arc::new(Schema::compile(&schema).unwrap())];
            let value = json!({"a": a});
            let content = vec![Content::Text("all of them".to_owned())];
            let reply =
                ToolReply { content, structured: Some(value.clone()), ..ToolReply::default() };
            let cut = filter.cut(Schemas { own: &own, session: None }, reply);
            assert_eq!(cut.whole, Some(format!("all of them\n{value}")));
            let texts: Vec<&str> = cut.reply.texts().collect();
            assert!(texts[0].starts_with("all of them"), "{texts:?}");
            assert!(texts[1].starts_with(beginning), "{texts:?}");
            assert_eq!((cut.reply.structured.as_ref(), cut.reply.is_error), (None, true));
            assert!(truncate::size_of(&cut.reply) <= 4_000, "{texts:?}");
        }
    }
}
