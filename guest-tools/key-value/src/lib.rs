//! Built-in tool `key_value_store`: what one agent keeps from one call to the next.

use claw_tool::json::Room;
use claw_tool::{ToolError, keys};
use serde_json::Value;

/// Entries of one page where the call does not say.
const PAGE_DEFAULT: u32 = 100;
/// The longest value, as JSON text: what the host keeps.
const VALUE_BYTES_MAX: usize = 32_768;

/// Arguments of `key_value_store`.
#[claw_tool::input]
struct KeyValueStore {
    /// "get" returns a value, "set" puts one in the place of what was there, "delete" takes one
    /// away, "list" returns keys in their order.
    action: Action,
    /// The key, for every action but "list": any text of 1 to 512 bytes. Case and every other
    /// difference count.
    #[serde(default)]
    key: Option<String>,
    /// The value to set: any JSON but null that a reply can return: about 32,000 bytes of it, and
    /// fewer where many have to be escaped.
    #[serde(default)]
    value: Option<Value>,
    /// For "list": only keys that begin with this.
    #[serde(default)]
    prefix: Option<String>,
    /// For "list": at most this many keys, 1 to 100, 100 where it is not said; fewer, where a reply
    /// holds no more.
    #[serde(default)]
    limit: Option<u32>,
    /// For "list": `next` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

// Plain comments here: variants without documentation make the shortest schema.
#[claw_tool::input]
#[derive(Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Action {
    Get,
    Set,
    Delete,
    List,
}

/// What came of it; each action fills its own part.
#[claw_tool::output]
#[derive(Default)]
struct Answer {
    /// The key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Of "get": whether there is a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<bool>,
    /// Of "get": the value, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    /// Of "set": bytes of the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    /// Of "delete": whether there was anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<bool>,
    /// Of "list": the entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<Entry>>,
    /// Of "list": the cursor of the next page, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// One entry, without its value.
#[claw_tool::output]
struct Entry {
    /// Its key.
    key: String,
    /// Bytes of its value.
    bytes: u64,
    /// When it was set, in milliseconds since 1970, UTC.
    set_at_ms: u64,
}

fn key_value_store(args: &KeyValueStore) -> Result<Answer, ToolError> {
    check(args)?;
    let key = args.key.as_deref().unwrap_or_default();
    let about = Answer { key: args.key.clone(), ..Answer::default() };
    match args.action {
        Action::Get => {
            let value = keys::get(key)?.map(|text| read(&text));
            Ok(Answer { found: Some(value.is_some()), value, ..about })
        }
        Action::Set => {
            let text = written(key, args.value.as_ref())?;
            keys::set(key, &text)?;
            Ok(Answer { bytes: Some(text.len()), ..about })
        }
        Action::Delete => Ok(Answer { deleted: Some(keys::delete(key)?), ..about }),
        Action::List => {
            let prefix = args.prefix.as_deref().unwrap_or_default();
            let limit = args.limit.unwrap_or(PAGE_DEFAULT);
            Ok(page(keys::list(prefix, args.cursor.as_deref(), limit)?))
        }
    }
}

/// Says what an action lacks, and what has no meaning beside it: silence would be a guess.
fn check(args: &KeyValueStore) -> Result<(), ToolError> {
    let given = [
        ("key", args.key.is_some()),
        ("value", args.value.is_some()),
        ("prefix", args.prefix.is_some()),
        ("limit", args.limit.is_some()),
        ("cursor", args.cursor.is_some()),
    ];
    let (needed, possible): (&[&str], &[&str]) = match args.action {
        Action::Get | Action::Delete => (&["key"], &["key"]),
        Action::Set => (&["key", "value"], &["key", "value"]),
        Action::List => (&[], &["prefix", "limit", "cursor"]),
    };
    for (name, is_given) in given {
        if needed.contains(&name) && !is_given {
            return Err(ToolError::invalid_args(format!("this action needs `{name}`")));
        }
        if is_given && !possible.contains(&name) {
            return Err(ToolError::invalid_args(format!("this action has no `{name}`")));
        }
    }
    match args.limit {
        Some(0) => Err(ToolError::invalid_args("`limit` is 1 to 100")),
        Some(limit) if limit > PAGE_DEFAULT => Err(ToolError::invalid_args("`limit` is 1 to 100")),
        _ => Ok(()),
    }
}

/// Returns a value as what is kept of it. The host refuses a longer one too; no call need go there. What no reply
/// could return would be lost.
fn written(key: &str, value: Option<&Value>) -> Result<String, ToolError> {
    let text = value.map(Value::to_string).unwrap_or_default();
    let bytes = text.len();
    if bytes > VALUE_BYTES_MAX {
        let why = format!("the value has {bytes} bytes; the most is {VALUE_BYTES_MAX}");
        return Err(ToolError::invalid_args(why));
    }
    let mut room = Room::default();
    if !room.takes(&key) || value.is_some_and(|value| !room.takes(value)) {
        return Err(ToolError::invalid_args(format!(
            "no reply returns the whole value of {bytes} bytes: about 32,000 is the most, and less where many have to be escaped"
        )));
    }
    Ok(text)
}

/// Another tool may have put something there that is no JSON: it is a text then.
fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

/// Returns those of a page's entries that a reply holds, with room for the longest of them as cursor.
fn page(page: keys::Page) -> Answer {
    let mut room = Room::default();
    let keys = page.entries.iter().map(|entry| Value::from(entry.key.as_str()));
    if let Some(longest) = keys.max_by_key(|key| key.to_string().len()) {
        room.takes(&longest);
    }
    let all = page.entries.len();
    let entry = |e: keys::Entry| Entry { key: e.key, bytes: e.bytes, set_at_ms: e.set_at_ms };
    let entries = page.entries.into_iter().map(entry).take_while(|entry| room.takes(entry));
    let entries: Vec<_> = entries.collect();
    let last = entries.last().map(|entry| entry.key.clone());
    let next = last.filter(|_| page.more || entries.len() < all);
    Answer { entries: Some(entries), next, ..Answer::default() }
}

claw_tool::export! {
    /// Keeps values under keys, from one call to the next. Every agent has a store of its own,
    /// which no other agent sees: at most 10,000 entries and 16 MiB. Nothing is ever thrown away
    /// to make room: a full store refuses, and says which bound it is.
    key_value_store [destructive, closed_world],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(action: Action) -> KeyValueStore {
        KeyValueStore { action, key: None, value: None, prefix: None, limit: None, cursor: None }
    }

    #[test]
    fn each_action_needs_its_own_arguments_and_takes_no_others() {
        let key = || Some("k".to_owned());
        let fine = [
            KeyValueStore { key: key(), ..args(Action::Get) },
            KeyValueStore { key: key(), value: Some(Value::from(1)), ..args(Action::Set) },
            KeyValueStore { key: key(), ..args(Action::Delete) },
            KeyValueStore { prefix: key(), limit: Some(100), cursor: key(), ..args(Action::List) },
            args(Action::List),
        ];
        for args in fine {
            assert!(check(&args).is_ok(), "{args:?}");
        }
        for (args, says) in [
            (args(Action::Get), "needs `key`"),
            (KeyValueStore { key: key(), ..args(Action::Set) }, "needs `value`"),
            (KeyValueStore { key: key(), prefix: key(), ..args(Action::Get) }, "no `prefix`"),
            (KeyValueStore { key: key(), ..args(Action::List) }, "no `key`"),
            (KeyValueStore { limit: Some(0), ..args(Action::List) }, "1 to 100"),
            (KeyValueStore { limit: Some(101), ..args(Action::List) }, "1 to 100"),
        ] {
            let why = check(&args).unwrap_err();
            assert!(matches!(&why, ToolError::InvalidArgs(why) if why.contains(says)), "{why:?}");
        }
    }

    #[test]
    fn a_value_that_is_too_long_is_the_callers_to_shorten() {
        let of = |letter: &str, count: usize| Value::from(letter.repeat(count));
        for fits in [of("v", 32_000), of("\"", 10_000), of("\n", 12_000)] {
            assert_eq!(written("k", Some(&fits)).unwrap(), fits.to_string());
        }
        let long_key = "k".repeat(512);
        for (key, long) in [
            ("k", of("v", VALUE_BYTES_MAX)),
            ("k", of("v", VALUE_BYTES_MAX - 2)),
            ("k", of("\"", 12_000)),
            (long_key.as_str(), of("v", 32_400)),
        ] {
            assert!(matches!(written(key, Some(&long)), Err(ToolError::InvalidArgs(_))), "{key}");
        }
    }

    #[test]
    fn a_page_has_as_many_long_keys_as_a_reply_holds() {
        let entry = |n: usize| keys::Entry { key: format!("{n:0512}"), bytes: 1, set_at_ms: 2 };
        let answer = page(keys::Page { entries: (0..100).map(entry).collect(), more: false });
        let entries = answer.entries.unwrap();
        assert!((30..70).contains(&entries.len()), "{}", entries.len());
        assert_eq!(answer.next, entries.last().map(|last| last.key.clone()));
    }

    #[test]
    fn a_page_that_is_not_the_last_names_the_next() {
        let entry = || keys::Entry { key: "k".to_owned(), bytes: 1, set_at_ms: 2 };
        let answer = page(keys::Page { entries: vec![entry()], more: true });
        assert_eq!(answer.next.as_deref(), Some("k"));
        assert_eq!(page(keys::Page { entries: vec![entry()], more: false }).next, None);
    }
}
