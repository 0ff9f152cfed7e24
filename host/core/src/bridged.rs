//! Tools of MCP servers, before anything is served of them: names that cannot pass for others, texts
//! that hide nothing, and what is kept of a definition to notice a change.
//!
//! A server is a stranger: what it says may tighten a decision and never relax one. Deliberately
//! absent: connections, and where pins are kept.

use serde_json::{Map, Value, json};

use crate::catalog::{ToolDefinition, check_definition, ckp_name};
use crate::digest;
use crate::limits::MCP_TOOL_NAME_BYTES_MAX;
use crate::manifest::{McpEndpoint, McpReach, McpValue};
use crate::schema::positions::{NAMES, VALUES};
use crate::visible;

/// The two names under which a tool of a server is served.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BridgedName {
    /// `server__tool`, or a document's own name: what MCP clients and models see.
    pub mcp: String,
    /// `server-tool`: what policies, documents and addresses say.
    pub ckp: String,
}

/// The most characters of a name that has a CKP form.
const NAME_BYTES_MAX: usize = 63;
/// Hexadecimal digits of a digest that stand for what was cut off.
const HASH_DIGITS: usize = 8;

impl BridgedName {
    /// Returns the name of the one tool `tool` of a server that the document `name` names: clients see
    /// the tool's own, where the document is called like it.
    pub fn of_document(name: &str, tool: &str) -> Self {
        let mcp = if ckp_name(tool) == name { tool } else { name };
        Self { mcp: mcp.to_owned(), ckp: name.to_owned() }
    }

    /// Returns the name of the tool `tool` of the server, or whole-server document, `server`.
    ///
    /// `.`, `/`, `:` and blanks become `_`; anything else but letters, digits, `_` and `-` is
    /// refused, so that no name looks like another. What is too long is cut, and a digest of the whole name
    /// stands at its end. Nothing is ever mapped back: who serves a name is looked up.
    ///
    /// # Errors
    /// The tool's name is none that can be served.
    pub fn of_server(server: &str, tool: &str) -> Result<Self, String> {
        let plain = |c: char| match c {
            '.' | '/' | ':' | ' ' => Some('_'),
            c if c.is_ascii_alphanumeric() || c == '_' || c == '-' => Some(c),
            _ => None,
        };
        let is_long = tool.len() > MCP_TOOL_NAME_BYTES_MAX;
        let mapped = tool.chars().map(plain).collect::<Option<String>>();
        let Some(mapped) = mapped.filter(|name| !is_long && !name.is_empty()) else {
            return Err(format!(
                "the name {:?} is not 1 to {MCP_TOOL_NAME_BYTES_MAX} of `a-z A-Z 0-9 _ - . / :` and blanks",
                crate::truncate::text(tool, MCP_TOOL_NAME_BYTES_MAX)
            ));
        };
        let whole = digest::of_bytes(format!("{server}\0{tool}").as_bytes());
        let ckp = ckp_name(&format!("{server}-{mapped}"));
        Ok(Self {
            mcp: fitted(format!("{server}__{mapped}"), "_", &whole),
            ckp: fitted(ckp, "-", &whole),
        })
    }
}

/// Returns the CKP name that `mcp.server.tool` means; nothing of what has another form.
pub(crate) fn dotted(text: &str) -> Option<String> {
    let (server, tool) = text.strip_prefix("mcp.")?.split_once('.')?;
    BridgedName::of_server(server, tool).ok().map(|name| name.ckp)
}

/// Returns what a tool of a server is remembered under. Names that would be served alike are one, so
/// that none takes the place of another.
pub fn remembered_as(tool: &str) -> String {
    let plain = |c: char| match c {
        '.' | '/' | ':' | ' ' | '_' => '-',
        c => c.to_ascii_lowercase(),
    };
    tool.chars().map(plain).collect()
}

/// Cuts `name` where it is too long; digits of `digest` then tell it from others cut to the same.
fn fitted(mut name: String, separator: &str, digest: &str) -> String {
    if name.len() > NAME_BYTES_MAX {
        name.truncate(NAME_BYTES_MAX - HASH_DIGITS - separator.len());
        name.push_str(separator);
        name.extend(digest.trim_start_matches("sha256:").chars().take(HASH_DIGITS));
    }
    name
}

/// Returns what is served of a definition under `name`: without hidden characters in what is only
/// read, and refused where one stands in what is compared.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn cleaned(raw: &ToolDefinition, name: &str) -> Result<ToolDefinition, String> {
    let mut definition = raw.clone();
    name.clone_into(&mut definition.name);
    definition.title = raw.title.as_deref().map(shown).filter(|title| !title.trim().is_empty());
    definition.description = shown(&raw.description);
    if definition.description.trim().is_empty() {
        // Without its name, which is another one for each of its readers.
        definition.description = match &definition.title {
            Some(title) => format!("{title} (nothing describes it)"),
            None => "Nothing describes this tool.".to_owned(),
        };
    }
    let schemas =
        std::iter::once(&mut definition.input_schema).chain(&mut definition.output_schema);
    schemas.into_iter().try_for_each(clean_schema)?;
    check_definition(&definition)?;
    Ok(definition)
}

/// Returns `text` without what drives a terminal or hides; line breaks and tabs stay.
fn shown(text: &str) -> String {
    text.chars().filter(|c| visible::is_plain(*c)).collect()
}

/// What a schema holds for people, whatever it says.
const WORDS: [&str; 3] = ["$comment", "description", "title"];
/// Cleans the words of a schema. Anything else that hides is refused: taking it out would change what
/// fits. Bounded by the nesting that JSON from outside may have.
fn clean_schema(schema: &mut Value) -> Result<(), String> {
    match schema {
        Value::Array(items) => items.iter_mut().try_for_each(clean_schema),
        Value::Object(object) => {
            object.iter_mut().try_for_each(|(key, value)| clean_keyword(key, value))
        }
        Value::String(text) => plain(text),
        _ => Ok(()),
    }
}

fn clean_keyword(keyword: &str, value: &mut Value) -> Result<(), String> {
    match value {
        Value::String(text) if WORDS.contains(&keyword) => {
            *text = shown(text);
            Ok(())
        }
        // Nothing in it is words, whatever it is called.
        value if VALUES.contains(&keyword) => all_plain(value),
        Value::Object(named) if NAMES.contains(&keyword) => named
            .iter_mut()
            .try_for_each(|(name, schema)| plain(name).and_then(|()| clean_schema(schema))),
        value => plain(keyword).and_then(|()| clean_schema(value)),
    }
}

fn all_plain(value: &Value) -> Result<(), String> {
    match value {
        Value::Array(items) => items.iter().try_for_each(all_plain),
        Value::Object(object) => {
            object.iter().try_for_each(|(key, value)| plain(key).and_then(|()| all_plain(value)))
        }
        Value::String(text) => plain(text),
        _ => Ok(()),
    }
}

fn plain(text: &str) -> Result<(), String> {
    if text.chars().all(visible::is_plain) {
        return Ok(());
    }
    Err(format!(
        "its schema has hidden characters in `{}`",
        visible::line(crate::truncate::text(text, 64))
    ))
}

/// Returns what is remembered of a tool: its definition as the server gave it, where the server is,
/// and the digest of how it is reached.
pub fn pinned(endpoint: &McpEndpoint, reach: &McpReach, raw: &ToolDefinition) -> Value {
    json!({ "endpoint": endpoint.as_str(), "started_with": started_with(reach), "definition": raw })
}

/// Returns the digest of a command line and the names of its variables, or of a URL and the names of
/// its headers. Their values are the operator's to change.
fn started_with(reach: &McpReach) -> String {
    let names = |values: &[(String, McpValue)]| {
        let mut names: Vec<_> = values.iter().map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names
    };
    digest::of_json(&match reach {
        McpReach::Program { command, args, env } => json!([command, args, names(env)]),
        McpReach::Url { url, headers, auth: None } => json!([url.as_str(), names(headers)]),
        McpReach::Url { url, headers, auth: Some(_) } => {
            json!([url.as_str(), names(headers), "auth"])
        }
    })
}

/// Returns what differs between two remembered values: a line for each thing taken out, and one for
/// each put in, with its place.
pub fn changes(before: &Value, after: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare(before, after, "", &mut lines);
    lines
}

fn compare(before: &Value, after: &Value, at: &str, lines: &mut Vec<String>) {
    if let (Value::Object(old), Value::Object(new)) = (before, after) {
        let keys = old.keys().chain(new.keys().filter(|key| !old.contains_key(*key)));
        let at = |key: &str| format!("{at}/{key}");
        return keys.for_each(|key| side(old, new, key, &at(key), lines));
    }
    if before != after {
        lines.push(visible::line(&format!("- {at}: {before}")));
        lines.push(visible::line(&format!("+ {at}: {after}")));
    }
}

fn side(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    key: &str,
    at: &str,
    lines: &mut Vec<String>,
) {
    match (old.get(key), new.get(key)) {
        (Some(old), Some(new)) => compare(old, new, at, lines),
        (Some(old), None) => lines.push(visible::line(&format!("- {at}: {old}"))),
        (None, Some(new)) => lines.push(visible::line(&format!("+ {at}: {new}"))),
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Annotations;

    fn definition(description: &str, schema: Value) -> ToolDefinition {
        ToolDefinition {
            name: "raw.name".to_owned(),
            title: None,
            description: description.to_owned(),
            input_schema: schema,
            output_schema: None,
            annotations: Annotations::default(),
        }
    }

    fn endpoint() -> McpEndpoint {
        McpEndpoint::parse("stdio:///bin/s").unwrap()
    }

    fn program(args: &[&str], variable: &str, value: &str) -> McpReach {
        let env = vec![(variable.to_owned(), McpValue::Literal(value.to_owned()))];
        let args = args.iter().map(|&text| text.to_owned()).collect();
        McpReach::Program { command: "/bin/s".to_owned(), args, env }
    }

    #[test]
    fn another_command_line_is_a_change_and_another_value_of_a_variable_is_none() {
        let of = |reach: &McpReach| pinned(&endpoint(), reach, &definition("d", json!({})));
        let first = of(&program(&["x"], "A", "1"));
        assert_eq!(first, of(&program(&["x"], "A", "2")));
        for other in
            [program(&["y"], "A", "1"), program(&[], "A", "1"), program(&["x"], "LD_PRELOAD", "1")]
        {
            let lines = changes(&first, &of(&other));
            assert_eq!(lines.len(), 2, "{lines:?}");
            assert!(lines[0].starts_with("- /started_with: "), "{lines:?}");
        }
    }

    #[test]
    fn names_that_would_be_served_alike_are_remembered_as_one() {
        for tool in ["a_b.c", "a-b_c", "A.b/c", "a b:c"] {
            assert_eq!(remembered_as(tool), "a-b-c");
        }
    }

    #[test]
    fn names_are_mapped_and_never_look_like_others() {
        for (tool, mcp, ckp) in [
            ("search", "git__search", "git-search"),
            ("read_file", "git__read_file", "git-read-file"),
            ("a.b/c:d e", "git__a_b_c_d_e", "git-a-b-c-d-e"),
            ("__proto__", "git____proto__", "git---proto--"),
        ] {
            let name = BridgedName::of_server("git", tool).unwrap();
            assert_eq!((name.mcp.as_str(), name.ckp.as_str()), (mcp, ckp));
        }
        let long = "x".repeat(129);
        for tool in ["", "a\u{1b}b", "a\nb", "se\u{430}rch", "a\u{200b}b", "a;b", &long] {
            assert!(BridgedName::of_server("git", tool).is_err(), "{tool:?}");
        }
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let of = |tool: &str| BridgedName::of_server("a-long-server-name", tool).unwrap();
        let (one, two) =
            (of(&format!("{}a", "t".repeat(100))), of(&format!("{}b", "t".repeat(100))));
        assert_eq!((one.mcp.len(), one.ckp.len()), (63, 63));
        assert!(one.mcp != two.mcp && one.ckp != two.ckp);
        assert_eq!(one, of(&format!("{}a", "t".repeat(100))));
    }

    #[test]
    fn what_hides_is_taken_out_of_words_and_refused_elsewhere() {
        let schema = |property: &str, description: &str| json!({"type": "object", "properties": {property: {"type": "string", "description": description}}});
        let raw = definition(
            "Reads\u{1b}[2J a\u{e0049}\u{200b}file.\n\u{202e}",
            schema("path", "a\u{200b}b"),
        );
        let clean = cleaned(&raw, "s__t").unwrap();
        assert_eq!(
            (clean.name.as_str(), clean.description.as_str()),
            ("s__t", "Reads[2J afile.\n")
        );
        assert_eq!(clean.input_schema, schema("path", "ab"));
        let error = cleaned(&definition("d", schema("pa\u{200b}th", "")), "s__t").unwrap_err();
        assert!(error.contains("hidden characters in `pa\\u{200b}th`"), "{error}");
        let hidden = json!({"type": "object", "properties": {"a": {"enum": ["\u{e0041}"]}}});
        assert!(cleaned(&definition("d", hidden), "s__t").is_err());
        // A property may be called as the words are, and what is below it is no word.
        let named = json!({"type": "object", "properties": {"title": {"const": "\u{200b}"}}});
        assert!(cleaned(&definition("d", named), "s__t").is_err());
        let described = cleaned(&definition("d", schema("default", "a\u{fe0f}b")), "s__t").unwrap();
        assert_eq!(described.input_schema, schema("default", "ab"));
        // Values are compared, or given to the tool, in whatever name.
        for (keyword, value) in [
            ("const", json!({"title": "a\u{200b}b"})),
            ("enum", json!([{"x": {"description": "a\u{fffa}b"}}])),
            ("default", json!({"$comment": "a\u{34f}b"})),
        ] {
            let schema = json!({"type": "object", "properties": {"a": {keyword: value}}});
            assert!(cleaned(&definition("d", schema), "s__t").is_err(), "{keyword}");
        }
    }

    #[test]
    fn what_is_missing_is_said_and_what_is_too_much_is_refused() {
        let object = || json!({"type": "object"});
        let mut undescribed = definition("", object());
        let said = |raw: &ToolDefinition| cleaned(raw, "s__t").unwrap().description;
        assert_eq!(said(&undescribed), "Nothing describes this tool.");
        undescribed.title = Some("Search".to_owned());
        assert_eq!(said(&undescribed), "Search (nothing describes it)");
        assert!(cleaned(&definition(&"x".repeat(1 << 20), object()), "s__t").is_err());
        assert!(cleaned(&definition("d", Value::Null), "s__t").is_err());
        let remote = json!({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1/"}}});
        let clean = cleaned(&definition("d", remote), "s__t").unwrap();
        assert!(crate::schema::Schema::compile(&clean.input_schema).is_err());
    }

    #[test]
    fn one_character_is_a_change_and_the_order_of_keys_is_none() {
        let of = |text: &str, schema: &str| {
            let definition = definition(text, serde_json::from_str(schema).unwrap());
            pinned(&endpoint(), &program(&["x"], "A", "1"), &definition)
        };
        let first = of("d", r#"{"type":"object","title":"a"}"#);
        let same = of("d", r#"{"title":"a","type":"object"}"#);
        assert_eq!(digest::of_json(&first), digest::of_json(&same));
        let other = of("\u{501}", r#"{"type":"object","default":1}"#);
        assert_ne!(digest::of_json(&first), digest::of_json(&other));
        let lines = changes(&first, &other);
        let at = "/definition/input_schema";
        for line in [
            "- /definition/description: \"d\"".to_owned(),
            "+ /definition/description: \"\u{501}\"".to_owned(),
            format!("- {at}/title: \"a\""),
            format!("+ {at}/default: 1"),
        ] {
            assert!(lines.contains(&line), "{lines:#?}");
        }
        assert_eq!(lines.len(), 4);
    }
}
