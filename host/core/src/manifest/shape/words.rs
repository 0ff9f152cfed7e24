//! Shapes and values in words: what is there, and what belongs there.

use url::Url;

use super::{Field, Shape};
use crate::egress::{self, EgressDenied, Reason};
use crate::manifest::kinds::{document_shape, spec_shape};
use crate::manifest::node::{Entry, Node, Value};
use crate::manifest::primitive::a;
use crate::uri::{NAME_CHARS_MAX, is_declared_name};

/// More choices than this are not shown in an example.
const CHOICES_SHOWN_MAX: usize = 12;

pub(super) fn found(node: &Node) -> String {
    match &node.value {
        Value::Flag(flag) => format!("{flag}"),
        Value::Number(_) => format!("the number {}", written(node)),
        Value::Text(text) if text.is_empty() => "an empty text".to_owned(),
        Value::Text(text) => format!("the text `{}`", shown(text)),
        Value::List(_) | Value::Map(_) | Value::Null => node.describe().to_owned(),
    }
}

/// Returns what is no text as its document has it, where that is one value with what was read: the number of `1.10`
/// is 1.1, which is no such version.
fn written(node: &Node) -> String {
    let (read, text) = (node.to_json(), node.at.text());
    let is_same = text.parse().is_ok_and(|number: f64| read.as_f64() == Some(number));
    if is_same { text.to_owned() } else { read.to_string() }
}

/// Says in words what belongs there; `path` ends in the key, whose ending tells the unit.
pub(crate) fn expected(shape: &Shape, path: &str) -> String {
    match shape {
        Shape::Address => "an address and a port: 127.0.0.1:8080 or [::1]:8080".to_owned(),
        Shape::Any => "a value".to_owned(),
        Shape::Entry(kind) => {
            format!("`inline: {}`, a path, or a claw:// address", sample_value(spec_shape(*kind)))
        }
        Shape::OpenRecord(_) if path.ends_with("_schema") => {
            "a JSON Schema, for example `{ type: object }`".to_owned()
        }
        Shape::Dict(_) | Shape::OpenRecord(_) | Shape::Spec => "a mapping".to_owned(),
        Shape::Duration => "a time such as 90s, 5m, 24h or 30d".to_owned(),
        Shape::Flag | Shape::Off { .. } => "true or false".to_owned(),
        Shape::Idle { of, .. } => expected(of, path),
        Shape::Later { .. } => "nothing".to_owned(),
        Shape::Int { min, max } if min == max => min.to_string(),
        Shape::Int { min, max: u64::MAX } => {
            format!("a whole number of {min} or more{}", unit(path))
        }
        Shape::Int { min, max } => format!("a whole number from {min} to {max}{}", unit(path)),
        Shape::List { of, .. } => format!("a list, each entry {}", expected(of, path)),
        Shape::Name => format!("a name of 1 to {NAME_CHARS_MAX} letters, digits and hyphens"),
        Shape::OneOf(known) | Shape::Served { now: known, .. } => {
            format!("one of: {}", known.join(", "))
        }
        Shape::Real { max } if *max < f64::MAX => format!("a number from 0 to {max}{}", unit(path)),
        Shape::Real { .. } => format!("a number of 0 or more{}", unit(path)),
        Shape::Record(fields) => mapping(fields),
        Shape::Ref(kind) => {
            format!("the name of {}, or claw://local/{}/<name>", a(*kind), kind.segment())
        }
        Shape::Path => "a path".to_owned(),
        Shape::Secret => "the name of a secret, as `clawhost secrets set NAME` has it".to_owned(),
        Shape::Text { .. } => text(path).to_owned(),
        Shape::Url => "an address such as `https://example.com/path`".to_owned(),
    }
}

/// Texts in more words, by the ending of their keys.
const TEXTS: [(&str, &str); 5] = [
    ("description", "a sentence that says what it does"),
    ("endpoint", "an address such as `https://example.com/v1`"),
    ("instruction", "sentences that say what to do"),
    ("model", "the name that the provider has for the model"),
    ("personality", "a sentence that says who the agent is"),
];

fn text(path: &str) -> &'static str {
    TEXTS.iter().find(|(ending, _)| path.ends_with(ending)).map_or("a text", |(_, text)| text)
}

/// Returns the keys that a mapping has to hold, or those that it mostly does, as YAML has them.
fn sample(fields: &'static [Field]) -> String {
    let required = fields.iter().filter(|field| field.required);
    let sampled = |field: &Field| format!("{}: {}", field.name, sample_value(field.shape));
    let mut keys: Vec<_> = required.map(sampled).collect();
    if keys.is_empty() {
        keys.extend(fields.iter().take(2).map(|field| format!("{}: …", field.name)));
    }
    format!("{{ {} }}", keys.join(", "))
}

fn sample_value(shape: &'static Shape) -> String {
    match shape {
        _ if let Some(value) = only(shape) => value,
        Shape::Idle { of, .. } => sample_value(of),
        Shape::List { of, .. } => format!("[{}]", sample_value(of)),
        Shape::Name | Shape::Ref(_) => "<name>".to_owned(),
        Shape::OneOf(known) | Shape::Served { now: known, .. }
            if known.len() <= CHOICES_SHOWN_MAX =>
        {
            known.join(" | ")
        }
        Shape::Secret => "<name of a secret>".to_owned(),
        Shape::Record(fields) | Shape::OpenRecord(fields) => sample(fields),
        _ => "…".to_owned(),
    }
}

fn mapping(fields: &'static [Field]) -> String {
    let is_served = |shape: &Shape| {
        !matches!(shape, Shape::Idle { .. } | Shape::Later { .. } | Shape::Off { .. })
    };
    let (must, may): (Vec<&Field>, Vec<&Field>) = fields.iter().partition(|field| field.required);
    let may = may.iter().filter(|field| is_served(field.shape)).map(|field| field.name);
    let may = may.collect::<Vec<_>>().join(", ");
    match (must.is_empty(), may.is_empty()) {
        (true, _) => format!("a mapping such as `{}` (possible: {may})", sample(fields)),
        (_, true) => format!("`{}`", sample(fields)),
        _ => format!("`{}` (also possible: {may})", sample(fields)),
    }
}

/// What narrows a rule of a policy, and what to write there: whoever takes a key out of it makes the
/// rule hold for more.
const NARROWING: [(&str, &str); 3] = [
    (
        "match",
        "write `name: <tool>`, `category: <label>` or `annotations: { readOnlyHint: true }`, or several",
    ),
    ("conditions", "write `path_within: <folder>`"),
    (
        "rate_limit",
        "write `tokens_per_day: <number>` or `cost_per_day_usd: <number>`; `tool_calls_per_minute` and `tokens_per_hour` belong under `rate_limits:`, beside `rules:`",
    ),
];

/// Says what to do about a key of `path` that is not known, where `choices` are.
pub(super) fn no_such_key(path: &str, choices: &str) -> String {
    let narrowing = NARROWING.iter().find(|(key, _)| path.ends_with(key));
    narrowing.map_or_else(|| format!("take it out, or {choices}"), |(_, help)| (*help).to_owned())
}

/// Says how a key is added to the `entries` that lack it.
pub(super) fn add(field: &Field, entries: &[Entry]) -> String {
    match (only(field.shape), told(field.shape, entries)) {
        (Some(value), _) => format!("add `{}: {value}`", field.name),
        (None, told) => format!("add `{}:` with {}", field.name, expected(told, field.name)),
    }
}

/// Returns the shape of a specification as the `kind` beside it tells, any other as it is.
pub(super) fn told(shape: &'static Shape, entries: &[Entry]) -> &'static Shape {
    let kind = || entries.iter().find(|entry| entry.key == "kind")?.node.as_text();
    let told = kind().filter(|_| matches!(shape, Shape::Spec)).and_then(document_shape);
    told.unwrap_or(shape)
}

/// Returns the value of a shape that has one alone.
pub(super) fn only(shape: &Shape) -> Option<String> {
    match shape {
        Shape::OneOf([value]) => Some((*value).to_owned()),
        // A version is no number.
        Shape::Served { now: [value], .. } if value.contains('.') => Some(format!("\"{value}\"")),
        Shape::Served { now: [value], .. } => Some((*value).to_owned()),
        Shape::Int { min, max } if min == max => Some(min.to_string()),
        _ => None,
    }
}

/// The units that numbers have, by the ending of their keys.
const UNITS: [(&str, &str); 7] = [
    ("_bytes", " (bytes)"),
    ("_mb", " (MiB)"),
    ("_minutes", " (minutes)"),
    ("_ms", " (milliseconds)"),
    ("_seconds", " (seconds)"),
    ("_usd", " (US dollars)"),
    ("dimensions", " (numbers that the model's vectors have)"),
];

fn unit(path: &str) -> &'static str {
    let key = path.strip_suffix("_max").unwrap_or(path);
    UNITS.iter().find(|(ending, _)| key.ends_with(ending)).map_or("", |(_, unit)| *unit)
}

/// Says what to write instead of `node`, and where quotes make the difference.
pub(super) fn instead(node: &Node, shape: &Shape, path: &str) -> String {
    // 0 may stand where there is a most, and nobody means it who wrote something else.
    let right = match shape {
        Shape::Int { min: 0, max } if *max < u64::MAX => {
            expected(&Shape::Int { min: 1, max: *max }, path)
        }
        _ => expected(shape, path),
    };
    let is_text = matches!(shape, Shape::Text { .. } | Shape::Path | Shape::Name | Shape::Ref(_));
    let is_number = matches!(shape, Shape::Int { .. } | Shape::Real { .. });
    match &node.value {
        Value::Number(_) | Value::Flag(_) if is_text => {
            format!("put it in quotes: `\"{}\"`", written(node))
        }
        Value::Text(_) if right == "a text" => format!("write {right} that is not empty"),
        Value::Text(text) if is_number && text.parse::<f64>().is_ok() => {
            format!("write {right}, without quotes")
        }
        Value::Text(text)
            if matches!(shape, Shape::Flag) && matches!(&**text, "true" | "false") =>
        {
            format!("write {right}, without quotes")
        }
        _ => format!("write {right}"),
    }
}

/// Says what is wrong with a name that may not be declared, and what would be right.
pub(crate) fn wrong_name(text: &str) -> Option<(String, String)> {
    let (right, chars) = (text.replace(['_', ' '], "-"), text.chars().count());
    let help = match text {
        _ if is_declared_name(text) => return None,
        _ if is_declared_name(&right) => {
            format!("write `{right}`: names in documents have hyphens")
        }
        _ if chars > NAME_CHARS_MAX => {
            format!("it has {chars} characters: write {NAME_CHARS_MAX} at most")
        }
        _ => format!(
            "write 1 to {NAME_CHARS_MAX} letters, digits and hyphens, the first a letter or digit"
        ),
    };
    Some((format!("the name `{}` is not allowed", shown(text)), help))
}

/// Says what is wrong with a web address, and what would be right. It is not repeated where there
/// may be a password in it.
pub(crate) fn wrong_url(text: &str) -> Option<(&'static str, String)> {
    const USER: &str = "take the user and the password out: a secret is named beside it, and `clawhost secrets set NAME` keeps its value";
    let with_scheme = format!("http://{text}");
    let (error, whole) = (egress::endpoint(text).err()?, egress::endpoint(&with_scheme));
    let is_here = || Url::parse(&with_scheme).ok()?.host().map(egress::is_this_machine);
    let has_user = |error: &EgressDenied| error.reason() == Reason::UserInfo;
    Some(match whole {
        _ if has_user(&error) => ("has a user name in it", USER.to_owned()),
        Err(error) if has_user(&error) => ("has a user name in it", USER.to_owned()),
        Ok(_) if !text.contains("://") => {
            let scheme = if is_here() == Some(true) { "http" } else { "https" };
            let (text, why) = match text.strip_suffix(":4317") {
                Some(host) => {
                    (format!("{host}:4318"), ": 4317 is the port of gRPC, which is not spoken here")
                }
                None => (text.to_owned(), ""),
            };
            ("has no scheme", format!("write `{scheme}://{text}`{why}"))
        }
        _ => (
            "is no web address",
            "write `https://host[:port]/path`, without a user name".to_owned(),
        ),
    })
}

/// Keeps a quoted text readable and on one line.
pub(crate) fn shown(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    let mut cut = String::new();
    for c in text.chars().take(SHOWN_CHARS_MAX) {
        match c {
            '"' | '\'' | '\\' => cut.push(c),
            _ => cut.extend(c.escape_debug()),
        }
    }
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() { format!("{cut}…") } else { cut }
}

/// Keeps another library's sentence on one line, and harmless.
pub(crate) fn shown_sentence(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 300;
    text.chars().take(SHOWN_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
