//! What the words behind `call` and `explain` mean: a tool, and arguments for it.

use clawhost_core::catalog::{Refused, Tool, ckp_name};
use clawhost_core::error::exit;
use clawhost_core::json;
use clawhost_core::manifest::{STDIO_PRINCIPAL, nearest};
use clawhost_core::schema::Schema;
use clawhost_core::uri::{ClawUri, UriError};
use serde_json::{Map, Value};

use super::args::CallWords;
use super::compile;
use super::fail::Fail;
use super::setup::Setup;
use crate::Host;
use crate::host::Principal;
use crate::registry::built_in_names;

/// Refusals that are told beside an unknown name; `clawhost tools` tells all.
const REFUSED_TOLD_MAX: usize = 3;

/// Says that there is no tool of that name: why it was refused, or which there are.
pub(super) fn unknown(name: &str, host: &Host) -> Fail {
    let catalog = host.catalog();
    if let Some(refused) = catalog.refused_as(name) {
        let code = if refused.is_upstream { exit::UPSTREAM } else { exit::DOCUMENT };
        return Fail::new(
            code,
            format!(
                "the tool `{name}` could not be loaded from {}: {}",
                refused.source, refused.reason
            ),
        );
    }
    let names: Vec<&str> = catalog.tools().map(|tool| tool.definition.name.as_str()).collect();
    let mut hint = match (names.is_empty(), catalog.loading.is_empty()) {
        (false, _) => told(name, &names),
        (true, false) => "no tool is served yet".to_owned(),
        (true, true) if catalog.refused.is_empty() => {
            "no tool is served: list tools under `tools:` of the manifest".to_owned()
        }
        (true, true) => "no tool is served".to_owned(),
    };
    if built_in_names().any(|own| own == ckp_name(name)) {
        let uri = format!("claw://local/tool/{}", ckp_name(name));
        hint =
            format!("it comes with the host: list `{uri}` under `tools:` of the manifest; {hint}");
    }
    if let Err(UriError::Alias(right)) = ClawUri::parse(name) {
        hint = format!("write `{right}`: the short form may stand in a manifest only; {hint}");
    }
    if !catalog.loading.is_empty() {
        hint.push_str(&format!("; not known yet: {}", catalog.loading.join(", ")));
    }
    // Where there are others, only what a server's name in front of the tool's asks for.
    let is_meant = |refused: &&Refused| {
        let server = refused.source.split('`').nth(1);
        names.is_empty() || server.is_some_and(|server| name.starts_with(server))
    };
    let meant = catalog.refused.iter().filter(is_meant).take(REFUSED_TOLD_MAX);
    meant.for_each(|refused| hint.push_str(&format!("; {refused}")));
    Fail::usage(format!("unknown tool `{name}`"), &hint)
}

/// Says that there is none of that name, and which there are.
pub(super) fn no_such(kind: &str, name: &str, names: &[&str]) -> Fail {
    Fail::usage(format!("unknown {kind} `{name}`"), &told(name, names))
}

/// Says which names there are, and first of all the one that was meant.
pub(super) fn told(name: &str, names: &[&str]) -> String {
    if names.is_empty() {
        return "there are none".to_owned();
    }
    let meant = nearest(name, names.iter().copied());
    let meant = meant.map(|meant| format!("did you mean `{meant}`? ")).unwrap_or_default();
    format!("{meant}there are: {}", names.join(", "))
}

/// Returns the agent whose call it is, where one is named.
pub(super) fn agent<'c>(setup: &Setup, call: &'c CallWords) -> Result<Option<&'c str>, Fail> {
    let Some(name) = call.agent.as_deref() else { return Ok(None) };
    let known: Vec<&str> = setup.credentials.agents().chain([STDIO_PRINCIPAL]).collect();
    if known.contains(&name) {
        return Ok(Some(name));
    }
    let context = call.places.context.as_deref();
    let is_compiled = context.is_some_and(|context| compile::compiled(context).contains(name));
    Err(if is_compiled { has_none(name) } else { no_such("agent", name, &known) })
}

/// Says that nothing was compiled for an agent of a pod, so that it has no token either.
fn has_none(agent: &str) -> Fail {
    Fail::usage(
        format!(
            "the agent `{agent}` has no tools: its pod gives it none, and no token to call with"
        ),
        "list some under its `x-claw.tools` and compile the pod anew, or name it under `agents` of clawhost.yaml",
    )
}

/// Returns who calls: the agent that is named, or else `own`.
pub(super) fn principal(setup: &Setup, call: &CallWords, own: &str) -> Result<Principal, Fail> {
    Ok(Principal(agent(setup, call)?.unwrap_or(own).to_owned()))
}

/// Reads one JSON object, or `key=value` pairs typed by the tool's schema.
pub(super) fn arguments(tool: Option<&Tool>, words: &[String]) -> Result<Value, Fail> {
    if let [only] = words
        && only.trim_start().starts_with('{')
    {
        require_exact(only)?;
        return json::parse(only.as_bytes()).map_err(|e| {
            Fail::usage(
                format!("the arguments are no JSON object: {e}"),
                "quote them for the shell: '{\"path\": \"a.txt\"}'",
            )
        });
    }
    let mut object = Map::new();
    for word in words {
        let Some((key, text)) = word.split_once('=') else {
            return Err(Fail::usage(
                format!("`{word}` is no key=value pair"),
                "write path=hello.txt, or one JSON object",
            ));
        };
        if object.insert(key.to_owned(), typed(tool, key, text)?).is_some() {
            return Err(Fail::usage(format!("`{key}` is given twice"), "give each argument once"));
        }
    }
    Ok(Value::Object(object))
}

/// Refuses a number that would be read as another one.
fn require_exact(text: &str) -> Result<(), Fail> {
    if json::rounds(text.as_bytes()) {
        let reason = "a whole number in the arguments does not fit in 64 bits";
        return Err(Fail::usage(reason, "write it as text: \"…\""));
    }
    Ok(())
}

fn typed(tool: Option<&Tool>, key: &str, text: &str) -> Result<Value, Fail> {
    let place = format!("/properties/{}", key.replace('~', "~0").replace('/', "~1"));
    let schema = tool.and_then(|tool| tool.definition.input_schema.pointer(&place));
    let Some(schema) = schema.filter(|schema| !is_text(schema, text)) else {
        return Ok(Value::from(text));
    };
    let mend = format!("the schema wants {}", schema.get("type").unwrap_or(schema));
    require_exact(text)?;
    json::parse(text.as_bytes())
        .map_err(|_| Fail::usage(format!("`{key}={text}` is no such value"), &mend))
}

/// Says whether a property of this schema takes `text` as it is. Where the schema does not say by a type, that is so
/// unless only what it is as JSON fits.
fn is_text(schema: &Value, text: &str) -> bool {
    let fits =
        |value: &Value| Schema::compile(schema).is_ok_and(|schema| schema.check(value).is_ok());
    match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(|name| name == "string"),
        Some(name) => name == "string",
        None => fits(&Value::from(text)) || !json::parse(text.as_bytes()).is_ok_and(|it| fits(&it)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_without_a_type_is_text_unless_only_its_json_fits() {
        let number = json!({"anyOf": [{"type": "number"}, {"type": "string", "enum": ["NaN"]}]});
        let whole = json!({"anyOf": [{"type": "integer"}, {"type": "null"}]});
        let word = json!({"anyOf": [{"type": "string"}, {"type": "null"}]});
        let elsewhere = json!({"$ref": "#/$defs/number"});
        for (schema, text, expected) in [
            (&number, "1.5", false),
            (&number, "NaN", true),
            (&number, "x", true),
            (&whole, "5", false),
            (&whole, "null", false),
            (&word, "5", true),
            (&elsewhere, "5", true),
            (&json!({}), "5", true),
            (&json!({"type": "integer"}), "x", false),
            (&json!({"type": ["integer", "string"]}), "5", true),
        ] {
            assert_eq!(is_text(schema, text), expected, "{schema} {text}");
        }
    }
}
