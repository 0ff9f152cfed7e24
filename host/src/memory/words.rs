//! Words: what of an entry is searched, and a query as the search engine reads it.

use std::collections::HashSet;
use std::sync::LazyLock;

use clawhost_core::limits::MEMORY_QUERY_WORDS_MAX;
use regex::Regex;
use serde_json::Value;

/// A word: letters, digits and what is for private use, as in the index. That one ends a word at most marks as
/// well; a query's goes on, as the words of many scripts hold some, and their parts are then found side by side.
static WORD: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[\p{L}\p{M}\p{N}\p{Co}]+").ok());

/// Returns the text of an entry: its key, and every text and number of its content, one a line.
pub(super) fn of_entry(key: Option<&str>, content: &Value) -> String {
    let mut text = String::new();
    if let Some(key) = key {
        push(&mut text, key);
    }
    collect(content, &mut text);
    text
}

/// The nesting of content is bounded where it is read.
fn collect(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, text)),
        Value::Object(map) => map.values().for_each(|item| collect(item, text)),
        Value::Number(number) => push(text, &number.to_string()),
        Value::String(words) => push(text, words),
        Value::Bool(_) | Value::Null => {}
    }
}

fn push(text: &mut String, words: &str) {
    text.push_str(words);
    text.push('\n');
}

/// Returns the query for entries with any word of `text`; nothing where it has none.
///
/// Each word is quoted, so that nothing in it is read as the engine's own language. Of very many different words
/// the first [`MEMORY_QUERY_WORDS_MAX`] count.
pub(super) fn any_of(text: &str) -> Option<String> {
    let mut seen = HashSet::new();
    let quoted: Vec<String> = text
        .split(separates)
        .flat_map(readings)
        .filter(|word| !word.is_empty() && seen.insert(word.to_lowercase()))
        .take(MEMORY_QUERY_WORDS_MAX)
        .map(|word| format!("\"{word}\""))
        .collect();
    (!quoted.is_empty()).then(|| quoted.join(" OR "))
}

/// Quotation marks are among them, and so is NUL, which would end the query early.
fn separates(c: char) -> bool {
    c.is_whitespace() || c.is_control() || c.is_ascii_punctuation()
}

/// Returns the words of a part, and the part itself after them: the index parts it as it knows the scripts, which
/// may be otherwise. A sign that it does not know is a word to it.
fn readings(part: &str) -> impl Iterator<Item = &str> {
    let words = WORD.iter().flat_map(|word| word.find_iter(part)).map(|found| found.as_str());
    words.chain(std::iter::once(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_entry_is_searched_by_its_key_and_all_its_values() {
        let content = json!({"role": "user", "parts": ["hello", 7, true, null, {"x": "there"}]});
        assert_eq!(of_entry(Some("greeting"), &content), "greeting\nhello\n7\nthere\nuser\n");
    }

    #[test]
    fn a_query_is_words_and_nothing_else() {
        let text = "Cats AND \"dogs\" NEAR(x) cats* col:y -z ^a\0b";
        let words = "\"Cats\" OR \"AND\" OR \"dogs\" OR \"NEAR\" OR \"x\" OR \"col\" OR \"y\" OR \"z\" OR \"a\" OR \"b\"";
        assert_eq!(any_of(text).as_deref(), Some(words));
        for nothing in ["", " \n", "\"\"", "***", "\0"] {
            assert_eq!(any_of(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn words_are_parted_by_all_that_is_none_in_any_script() {
        for between in
            ["—", "–", "…", "、", "，", "。", "·", "→", "،", "।", "\u{200b}", "\u{3000}", "🦀"]
        {
            let part = format!("alpha{between}7½");
            let query = any_of(&part).unwrap();
            assert!(query.starts_with("\"alpha\" OR \"7½\""), "{between:?}: {query}");
            let is_one_part = !part.contains(char::is_whitespace);
            assert_eq!(query.ends_with(&format!(" OR \"{part}\"")), is_one_part, "{query}");
        }
        for word in ["cafe\u{301}", "हिन्दी", "ภาษาไทย", "東京タワー", "\u{e000}"]
        {
            assert_eq!(any_of(word), Some(format!("\"{word}\"")));
        }
    }

    #[test]
    fn only_so_many_words_are_looked_for() {
        let text: Vec<String> = (0..MEMORY_QUERY_WORDS_MAX * 2).map(|n| format!("w{n}")).collect();
        let query = any_of(&text.join(" ")).unwrap();
        assert_eq!(query.split(" OR ").count(), MEMORY_QUERY_WORDS_MAX);
    }
}
