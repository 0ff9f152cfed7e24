//! What requests name of what their provider keeps, and what answers say was made.
//!
//! All agents of a host come to a provider with one key, so a name opens what it names, whoever had it made. One
//! table has the places of the three protocols in requests, one those in answers. Deliberately absent: what the
//! operator alone can have made and means for whoever asks (templates of prompts, skills, voices), whose names
//! pass; what holds no name but the words of others: arguments, schemas, annotations; and the list of what a
//! response was made of, as names in it may be those that its request chose.

use std::collections::BTreeSet;

use serde_json::Value;

use super::values::{remove, set};
use crate::json::{items, text};
use crate::limits::PROXY_NAME_BYTES_MAX;

/// A name in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named<'v> {
    /// Where it stands.
    pub key: &'static str,
    /// What it is; empty where it is no text.
    pub id: &'v str,
    /// What to do instead of naming it.
    pub instead: &'static str,
}

/// Where names stand, as a text, a list of them, or an object's `id`; and what to do instead.
const PLACES: [(&str, &str); 13] = [
    ("approval_request_id", "have it asked for again"),
    ("audio", "send the words of it"),
    ("comparison_response_id", "leave it out"),
    ("container", "leave it out, so that a new one is made"),
    // Also where a call that ran is sent again with all it says: what runs next may go on in the container of a call
    // that the model sees. Whether anything can run is not told by the request alone: templates bring tools as well.
    ("container_id", "leave out what ran in it"),
    ("conversation", "name `previous_response_id`, or send the `input`"),
    ("file_id", "embed the content"),
    ("file_ids", "embed the content"),
    (ITEMS, "send all that the item says, without its `id`"),
    ("previous_message_id", "leave it out"),
    ("previous_response_id", "send the whole `input`"),
    ("tunnel_id", "name a `server_url`"),
    ("vector_store_ids", "embed the content"),
];
/// Holds items, of which some may be no more than a name.
const ITEMS: &str = "input";
/// Holds what others say, which names nothing to the provider: below what, and under which key.
const SAID: [(&str, &str); 18] = [
    ("", "metadata"),
    ("content", "annotations"),
    ("content", "input"),
    ("format", "schema"),
    ("function", "arguments"),
    ("function", "parameters"),
    ("functions", "parameters"),
    (ITEMS, "arguments"),
    (ITEMS, "results"),
    ("json_schema", "schema"),
    ("messages", "annotations"),
    ("output_format", "schema"),
    ("response_format", "schema"),
    ("tools", "annotations"),
    ("tools", "headers"),
    ("tools", "input_examples"),
    ("tools", "input_schema"),
    ("tools", "parameters"),
];
/// Where an answer, or an event of one, names what was made: all else repeats what was asked, or what tools say.
const MADE: [&str; 12] = [
    "choices.delta.audio.id",
    "choices.message.audio.id",
    "container.id",
    "content.content.content.file_id",
    "content_block.content.content.file_id",
    "delta.container.id",
    "item.container_id",
    "item.environment.container_id",
    "item.id",
    "output.container_id",
    "output.environment.container_id",
    "output.id",
];

/// Returns all that `request` names, in no order.
pub fn named(request: &Value) -> Vec<Named<'_>> {
    let mut found = Vec::new();
    parts("", request, &mut found);
    found
}

/// Returns the names of the sounds in `request` that a model made and whose words stand beside them.
pub fn spoken(request: &Value) -> impl Iterator<Item = &str> {
    let sounds = items(request, "messages").iter().filter_map(|message| message.get("audio"));
    let spoken = sounds.filter(|sound| !text(sound, "transcript").is_empty());
    spoken.map(|sound| text(sound, "id")).filter(|id| !id.is_empty())
}

/// Puts the words of sounds, by their names in `ids`, in the place of these.
pub fn write_out(request: &mut Value, ids: &BTreeSet<String>) {
    let messages = request.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten() {
        let sound = message.get("audio").filter(|sound| ids.contains(text(sound, "id")));
        let words = sound.map(|sound| text(sound, "transcript")).unwrap_or_default().to_owned();
        if words.is_empty() {
            continue;
        }
        remove(message, &["audio"]);
        if !message.get("content").is_some_and(is_said) {
            set(message, "content", words.into());
        }
    }
}

/// Returns the names of what was made, in an answer or an event of one. `is_kept` says that its provider keeps the
/// answer by its own name.
pub fn made(answer: &Value, is_kept: bool) -> BTreeSet<&str> {
    let whole = ["response", "message"].into_iter().find_map(|key| answer.get(key));
    let mut found = BTreeSet::new();
    for from in whole.into_iter().chain([answer]) {
        MADE.iter().for_each(|path| follow(from, path.split('.'), &mut found));
    }
    found.extend(is_kept.then(|| text(whole.unwrap_or(answer), "id")));
    found.retain(|id| is_id(id));
    found
}

/// Takes the texts that stand at `path`, of each part where there is a list.
fn follow<'v>(
    value: &'v Value,
    mut path: std::str::Split<'_, char>,
    found: &mut BTreeSet<&'v str>,
) {
    if let Value::Array(list) = value {
        return list.iter().for_each(|part| follow(part, path.clone(), found));
    }
    match path.next() {
        Some(key) => value.get(key).into_iter().for_each(|part| follow(part, path.clone(), found)),
        None => found.extend(value.as_str()),
    }
}

/// Says whether something may be asked for by that name: it becomes a part of a path, and dots may be steps.
fn is_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=PROXY_NAME_BYTES_MAX).contains(&id.len())
        && !id.starts_with('.')
        && id.bytes().all(is_plain)
}

fn find<'v>(above: &str, key: &str, value: &'v Value, found: &mut Vec<Named<'v>>) {
    if SAID.contains(&(above, key)) {
        return;
    }
    if let Some((key, instead)) = PLACES.iter().find(|(place, _)| *place == key) {
        let named = |id| Named { key, id, instead };
        match (above, *key) {
            ("", ITEMS) => found.extend(items_named(value).map(named)),
            (_, ITEMS) => {}
            _ => ids(value, &mut |id| found.push(named(id))),
        }
    }
    match (above, key, value) {
        // What these are called is the client's word.
        ("prompt", "variables", Value::Object(all)) => {
            all.values().for_each(|value| parts(key, value, found));
        }
        _ => parts(key, value, found),
    }
}

/// Looks at what stands below the key `above`, lists or not.
fn parts<'v>(above: &str, value: &'v Value, found: &mut Vec<Named<'v>>) {
    match value {
        Value::Array(list) => list.iter().for_each(|part| parts(above, part, found)),
        Value::Object(all) => all.iter().for_each(|(key, value)| find(above, key, value, found)),
        _ => {}
    }
}

fn ids<'v>(value: &'v Value, found: &mut impl FnMut(&'v str)) {
    match value {
        Value::Null => {}
        Value::String(id) => found(id),
        Value::Array(list) => list.iter().for_each(|value| ids(value, found)),
        Value::Object(all) => all.get("id").into_iter().for_each(|id| ids(id, found)),
        Value::Bool(_) | Value::Number(_) => found(""),
    }
}

/// Returns the names of those items of a list that are but the names of others.
fn items_named(list: &Value) -> impl Iterator<Item = &str> {
    let all = list.as_array().into_iter().flatten();
    all.filter(|item| is_name(item)).map(|item| text(item, "id"))
}

/// Says whether an item is but the name of one that its provider keeps, which may look it up, whatever else stands
/// beside the name.
fn is_name(item: &Value) -> bool {
    let says = |key: &&str| item.get(key).is_some_and(is_said);
    item.get("id").is_some_and(|id| !id.is_null()) && !content(text(item, "type")).iter().any(says)
}

/// Returns the members of an item of that kind of which one at least carries what it says. Nothing is known of other
/// kinds, nor said in an `item_reference`.
fn content(kind: &str) -> &'static [&'static str] {
    match kind {
        "" | "message" => &["content"],
        "apply_patch_call" => &["operation"],
        "code_interpreter_call" => &["code"],
        "compaction" => &["encrypted_content"],
        "computer_call" => &["action", "actions"],
        "custom_tool_call" => &["input"],
        "file_search_call" => &["queries"],
        "function_call" | "mcp_approval_request" | "mcp_call" | "tool_search_call" => {
            &["arguments"]
        }
        "image_generation_call" => &["result"],
        "local_shell_call" | "shell_call" | "web_search_call" => &["action"],
        "mcp_approval_response" => &["approval_request_id"],
        "mcp_list_tools" | "tool_search_output" => &["tools"],
        // A summary is not the thought.
        "reasoning" => &["content", "encrypted_content"],
        kind if kind.ends_with("_output") => &["output"],
        _ => &[],
    }
}

/// Says whether there is any text in it, beside what kind it is of.
fn is_said(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.iter().any(is_said),
        Value::Object(all) => all.iter().any(|(key, value)| key != "type" && is_said(value)),
        Value::String(text) => !text.is_empty(),
        Value::Bool(_) | Value::Null | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(request: &Value) -> Vec<(&'static str, &str)> {
        named(request).into_iter().map(|named| (named.key, named.id)).collect()
    }

    #[test]
    fn what_a_provider_keeps_is_found_wherever_it_is_named() {
        let say = |part: Value| json!({ "messages": [{ "role": "user", "content": [part] }] });
        let give = |part: Value| json!({ "input": [{ "role": "user", "content": [part] }] });
        let source = json!({ "type": "file", "file_id": "x" });
        let result =
            json!({ "type": "tool_result", "content": [{ "type": "document", "source": source }] });
        for (request, key) in [
            (json!({ "previous_response_id": "x" }), "previous_response_id"),
            (
                json!({ "prompt_cache_options": { "comparison_response_id": "x" } }),
                "comparison_response_id",
            ),
            (json!({ "conversation": "x" }), "conversation"),
            (json!({ "conversation": { "id": "x" } }), "conversation"),
            (
                json!({ "input": [{ "type": "item_reference", "id": "x", "role": "user" }] }),
                "input",
            ),
            (json!({ "input": [{ "id": "x" }] }), "input"),
            (json!({ "input": [{ "type": "message", "id": "x", "content": null }] }), "input"),
            (json!({ "input": [{ "type": "reasoning", "id": "x", "summary": [{}] }] }), "input"),
            (give(json!({ "type": "input_file", "file_id": "x" })), "file_id"),
            (
                json!({ "input": [{ "type": "function_call_output", "call_id": "c",
                "output": [{ "type": "input_image", "file_id": "x" }] }] }),
                "file_id",
            ),
            (
                json!({ "prompt": { "id": "own", "variables": { "v": { "file_id": "x" } } } }),
                "file_id",
            ),
            (
                json!({ "tools": [{ "type": "file_search", "vector_store_ids": ["x"] }] }),
                "vector_store_ids",
            ),
            (json!({ "tools": [{ "type": "code_interpreter", "container": "x" }] }), "container"),
            (
                json!({ "tools": [{ "type": "code_interpreter",
                "container": { "type": "auto", "file_ids": ["x"] } }] }),
                "file_ids",
            ),
            (
                json!({ "tools": [{ "type": "shell", "environment": { "container_id": "x" } }] }),
                "container_id",
            ),
            (
                json!({ "input": [{ "type": "code_interpreter_call", "id": "i", "code": "1",
                "outputs": [], "container_id": "x" }] }),
                "container_id",
            ),
            (json!({ "tools": [{ "type": "mcp", "tunnel_id": "x" }] }), "tunnel_id"),
            (say(json!({ "type": "file", "file": { "file_id": "x" } })), "file_id"),
            (json!({ "messages": [{ "role": "assistant", "audio": { "id": "x" } }] }), "audio"),
            (say(json!({ "type": "container_upload", "file_id": "x" })), "file_id"),
            (say(result), "file_id"),
            (json!({ "container": "x" }), "container"),
            (json!({ "container": { "id": "x", "skills": [{ "skill_id": "own" }] } }), "container"),
            (json!({ "diagnostics": { "previous_message_id": "x" } }), "previous_message_id"),
            (json!({ "prompt": { "variables": { "input": { "file_id": "x" } } } }), "file_id"),
            (json!({ "prompt": { "variables": { "schema": { "file_id": "x" } } } }), "file_id"),
            (json!({ "schema": { "file_id": "x" } }), "file_id"),
            (
                json!({ "input": [{ "type": "mcp_approval_response", "approval_request_id": "x" }] }),
                "approval_request_id",
            ),
        ] {
            assert_eq!(names(&request), [(key, "x")], "{request}");
        }
        assert_eq!(names(&json!({ "file_id": 7 })), [("file_id", "")], "no text is nobody's");
    }

    #[test]
    fn what_says_all_of_itself_or_is_the_words_of_others_names_nothing() {
        let schema =
            json!({ "properties": { "file_id": { "default": "x" } }, "required": ["file_id"] });
        for request in [
            json!({ "input": ["hi", { "role": "user", "content": "hi", "id": "m" }, {}] }),
            json!({ "input": [{ "type": "message", "id": "m", "content": [{ "text": "hi" }] }] }),
            json!({ "input": [{ "type": "image_generation_call", "id": "i", "result": "aGk=" }] }),
            json!({ "input": [{ "type": "web_search_call", "id": "w", "action": { "query": "q" } }] }),
            json!({ "input": [{ "type": "file_search_call", "id": "s", "queries": ["q"],
                "results": [{ "file_id": "x" }] }] }),
            json!({ "input": [{ "type": "mcp_call", "id": "m", "arguments": "{}", "output": null }] }),
            json!({ "input": [{ "type": "mcp_list_tools", "id": "l",
                "tools": [{ "name": "t", "input_schema": { "file_id": "x" } }] }] }),
            json!({ "input": [{ "type": "function_call_output", "id": "o", "output": "done" }] }),
            json!({ "input": [{ "type": "reasoning", "id": "r", "encrypted_content": "e" }] }),
            json!({ "input": [{ "type": "reasoning", "id": "r", "content": [{ "text": "so" }] }] }),
            json!({ "input": [{ "type": "reasoning", "summary": [] }] }),
            json!({ "input": [{ "type": "function_call", "id": "f", "arguments": "{\"file_id\":\"x\"}" }] }),
            json!({ "messages": [{ "content": [{ "type": "tool_use", "input": { "file_id": "x" } }] }] }),
            json!({ "messages": [{ "content": [{ "text": "", "annotations": [{ "file_id": "x" }] }] }] }),
            json!({ "tools": [{ "parameters": schema }, { "input_schema": schema }] }),
            json!({ "tools": [{ "type": "code_interpreter", "container": { "type": "auto" } }] }),
            json!({ "metadata": { "file_id": "x" }, "audio": { "voice": { "id": "v" } }, "container": null }),
            json!({ "prompt": { "id": "template", "variables": { "audio": "x", "conversation": "x" } } }),
            json!({ "text": { "format": { "schema": schema } } }),
            json!({ "response_format": { "json_schema": { "schema": schema } } }),
        ] {
            assert_eq!(names(&request), [], "{request}");
        }
    }

    #[test]
    fn a_name_is_one_whatever_stands_beside_it_that_is_not_what_it_says() {
        for (kind, beside) in [
            ("reasoning", json!({ "summary": [{ "text": "so" }], "encrypted_content": "" })),
            ("reasoning", json!({ "encrypted_content": false })),
            ("reasoning", json!({ "content": [{}] })),
            ("reasoning", json!({ "content": [{ "type": "reasoning_text", "text": "" }] })),
            ("image_generation_call", json!({ "result": "", "size": "1x1" })),
            ("image_generation_call", json!({ "revised_prompt": "a cat" })),
            ("web_search_call", json!({ "action": {} })),
            ("code_interpreter_call", json!({ "code": "", "outputs": null })),
            ("message", json!({ "content": [] })),
            ("of_tomorrow", json!({ "content": "hi" })),
            ("item_reference", json!({ "content": "hi", "output": "hi" })),
        ] {
            let mut item = json!({ "type": kind, "id": "x" });
            item.as_object_mut().unwrap().extend(beside.as_object().unwrap().clone());
            assert_eq!(names(&json!({ "input": [item] })), [("input", "x")], "{kind}: {beside}");
            item["id"] = Value::Null;
            assert_eq!(names(&json!({ "input": [item] })), [], "{kind} without its name");
        }
    }

    #[test]
    fn a_sound_is_written_out_where_its_words_are_there_and_says_nothing_else() {
        let sound = |id: &str, more: Value| {
            let mut sound = json!({ "id": id });
            sound.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({ "role": "assistant", "content": null, "audio": sound })
        };
        let spoken_by = |id: &str| sound(id, json!({ "data": "aGk=", "transcript": "Hi." }));
        let mut said = spoken_by("x");
        said["content"] = "Said.".into();
        let mute = sound("x", json!({ "data": "aGk=", "transcript": "" }));
        let mut request = json!({ "audio": { "voice": "v", "format": "wav" },
            "messages": [spoken_by("own"), spoken_by("x"), said, mute, { "content": "hi" }] });
        assert_eq!(spoken(&request).collect::<Vec<_>>(), ["own", "x", "x"]);
        let expected = json!([spoken_by("own"), { "role": "assistant", "content": "Hi." },
            { "role": "assistant", "content": "Said." }, mute, { "content": "hi" }]);
        write_out(&mut request, &BTreeSet::from(["x".to_owned()]));
        assert_eq!(request["messages"], expected);
        assert_eq!(names(&request), [("audio", "own"), ("audio", "x")], "that of the mute one");
    }

    #[test]
    fn an_id_is_a_name_and_no_step_of_a_path() {
        let long = "x".repeat(PROXY_NAME_BYTES_MAX);
        assert!(["resp_1", "a.b:c-d", &long].into_iter().all(is_id));
        let others = ["", ".", "..", "a/b", "a?b", "a%2e", "ä", &(long.clone() + "x")];
        assert!(!others.into_iter().any(is_id));
        for id in others {
            assert!(made(&json!({ "id": id, "output": [{ "id": id }] }), true).is_empty());
        }
    }

    #[test]
    fn an_answer_says_what_was_made_and_not_what_was_asked() {
        let output = json!([{ "type": "reasoning", "id": "r" },
            { "type": "code_interpreter_call", "id": "i", "container_id": "c" },
            { "type": "mcp_call", "id": "m", "output": "file",
                "error": { "content": [{ "_meta": { "file_id": "x", "container_id": "x" } }] } }]);
        let answer =
            json!({ "id": "a", "output": output, "tools": [{ "vector_store_ids": ["v"] }] });
        let made = |answer: &Value, is_kept| {
            made(answer, is_kept).into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(made(&answer, true), "a c i m r");
        assert_eq!(made(&answer, false), "c i m r", "an agent may send again what it was sent");
        assert_eq!(
            made(&json!({ "type": "response.created", "response": answer }), true),
            "a c i m r"
        );
        let item = json!({ "type": "response.output_item.done", "item": { "id": "i" } });
        assert_eq!(made(&item, true), "i");
        let delta = json!({ "type": "message_delta", "delta": { "container": { "id": "c" } } });
        assert_eq!(made(&delta, false), "c");
        let begun = json!({ "type": "message_start", "message": { "id": "m", "container": { "id": "c" } } });
        assert_eq!((made(&begun, true), made(&begun, false)), ("c m".to_owned(), "c".to_owned()));
        let said = json!({ "id": "a", "choices": [{ "message": { "audio": { "id": "s" } } }] });
        assert_eq!(made(&said, false), "s");
        let run = json!({ "type": "bash_code_execution_result", "content": [{ "file_id": "f" }] });
        let used = json!({ "type": "tool_use", "input": { "file_id": "x" } });
        let answer =
            json!({ "id": "a", "content": [{ "content": run }, used], "container": { "id": "c" } });
        assert_eq!(made(&answer, false), "c f");
    }
}
