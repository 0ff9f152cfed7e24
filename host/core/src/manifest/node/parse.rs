//! From the bytes of a document to its tree.
//!
//! serde-saphyr does the reading, and bounds depth, nodes and alias expansion. JSON is read the same
//! way, being YAML.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DuplicateKeyPolicy, Error, MergeKeyPolicy};

use super::{Entry, Node, Place};
use crate::limits::{
    DOCUMENT_ALIAS_NODES_MAX, DOCUMENT_BYTES_MAX, DOCUMENT_DEPTH_MAX, DOCUMENT_NODES_MAX,
    DOCUMENT_TEXT_BYTES_MAX,
};
use crate::manifest::problem::{DocumentError, MANIFEST_INVALID, Source};
use crate::manifest::shape::shown;

/// What any text is that the reader cannot read.
const NOT_YAML: &str = "this is neither YAML nor JSON";

/// Reads one document.
pub(crate) fn parse(file: &Path, bytes: &[u8]) -> Result<Node, Box<DocumentError>> {
    let whole =
        |reason: String, help| Box::new(DocumentError::whole_file(file, reason, Some(help)));
    if bytes.len() > DOCUMENT_BYTES_MAX {
        let reason = format!("the document has more than {DOCUMENT_BYTES_MAX} bytes");
        return Err(whole(reason, "split it"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(file, bytes, error))?;
    let source = Source::new(file, text);
    let read = serde_saphyr::from_str_with_options::<Node>(text, options());
    let mut node = read.map_err(|error| Box::new(syntax_problem(&source, &error)))?;
    node.stands_in(&source);
    let (Entry { key, at, .. }, is, help) = if let Some((first, second)) = twice(&node) {
        let is = format!("is there twice, first in line {}", first.at.line);
        (second, is, "delete one: it is not clear which is meant")
    } else if let Some((entry, help)) = no_key(&node) {
        (entry, "is no key".to_owned(), help)
    } else {
        return Ok(node);
    };
    let reason = format!("`{}` {is}", shown(key));
    Err(Box::new(DocumentError::new(at, MANIFEST_INVALID, reason, help)))
}

/// Finds a key that one mapping has twice: which of them would count?
fn twice(node: &Node) -> Option<(&Entry, &Entry)> {
    let (own, mut seen) = (node.entries(), BTreeMap::new());
    let mut second = own.iter().map(|entry| Some((seen.insert(&entry.key, entry)?, entry)));
    second
        .find_map(|both| both)
        .or_else(|| own.iter().map(|entry| &entry.node).chain(node.items()).find_map(twice))
}

const COMMENT: &str = "take the comment out: JSON has no comments, and in YAML they begin with `#`";
const TAB: &str = "indent with spaces: this line has a tab";

/// Finds a key that has swallowed a comment or has what pasting leaves in the place of a plain
/// character: YAML takes both for text.
fn no_key(node: &Node) -> Option<(&Entry, &'static str)> {
    let in_key = |entry: &Entry| {
        let key = &entry.key;
        let is_comment = (key.starts_with("//") || key.starts_with("/*")) && key.contains('"');
        if is_comment { Some(COMMENT) } else { pasted(key) }
    };
    let own = node.entries().iter();
    own.clone()
        .find_map(|entry| Some((entry, in_key(entry)?)))
        .or_else(|| own.map(|entry| &entry.node).chain(node.items()).find_map(no_key))
}

/// Says what to write where a text begins or ends with what a web page or a word processor has in
/// the place of a plain character.
pub(crate) fn pasted(text: &str) -> Option<&'static str> {
    let help = |c: char| match c {
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{3000}' => {
            Some("write a plain space: what stands here looks like one and is another character")
        }
        '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' => {
            Some("write this anew: an invisible character stands here")
        }
        '‘' | '’' | '“' | '”' | '„' => {
            Some("write plain quotes, `\"`: these are typographic")
        }
        _ => None,
    };
    text.chars().next().and_then(help).or_else(|| text.chars().next_back().and_then(help))
}

fn not_utf8(file: &Path, bytes: &[u8], error: std::str::Utf8Error) -> Box<DocumentError> {
    let (line, column, reason) = no_text(bytes, error);
    let place = Place { line, column, ..Place::start(&Source::new(file, "")) };
    Box::new(DocumentError::new(&place, MANIFEST_INVALID, reason, "save the file as UTF-8"))
}

/// Returns line and column of what is not UTF-8, and says so.
pub(crate) fn no_text(bytes: &[u8], error: std::str::Utf8Error) -> (usize, usize, String) {
    let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
    let good = String::from_utf8_lossy(good);
    let line = good.matches('\n').count() + 1;
    let column = good.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column, format!("line {line} is not UTF-8 text from character {column} on"))
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DOCUMENT_DEPTH_MAX,
            flow_nesting_limit: DOCUMENT_DEPTH_MAX,
            max_nodes: DOCUMENT_NODES_MAX,
            max_events: DOCUMENT_NODES_MAX.saturating_mul(2),
            max_documents: 1,
            max_aliases: DOCUMENT_ALIAS_NODES_MAX,
            max_anchors: DOCUMENT_ALIAS_NODES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: DOCUMENT_ALIAS_NODES_MAX,
            max_replay_stack_depth: 8,
        },
        // So that both are seen, and none is used.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

fn syntax_problem(source: &Arc<Source>, error: &serde_saphyr::Error) -> DocumentError {
    let start = Place::start(source);
    let place = error.location().map_or(start, |location| place_of(location, source));
    let (reason, help) = explain(error.without_snippet());
    let (file, line) = (&*source.file, place.line.saturating_sub(1));
    let lines = [source.text.lines().nth(line), source.text.lines().take(line).last()];
    let slip = lines.into_iter().flatten().find_map(|line| slip(line, file.ends_with(".json")));
    let help = slip.filter(|_| reason.starts_with(NOT_YAML)).unwrap_or(help).to_owned();
    let help = open_quote(&source.text, place.line, &reason).unwrap_or(help);
    DocumentError::new(&place, MANIFEST_INVALID, reason, help)
}

/// Says which quote nothing closes, where the reader gave up on one.
fn open_quote(text: &str, line: usize, reason: &str) -> Option<String> {
    let is_odd = |(_, line): &(usize, &str)| line.matches('"').count() % 2 == 1;
    let mut lines = text.lines().enumerate().take(line);
    let (index, _) = lines.find(is_odd).filter(|_| reason.contains("quote"))?;
    Some(format!("close the quote that line {} opens", index + 1))
}

/// Says what people often mean by a line that cannot be read.
pub(crate) fn slip(line: &str, is_json: bool) -> Option<&'static str> {
    let text = line.trim_start();
    let indent = line.get(..line.len() - text.len()).unwrap_or_default();
    let value = text.trim_start_matches("- ");
    let value = value.split_once(": ").map_or(value, |(_, value)| value).trim_start();
    let is_plain = !value.starts_with(['"', '\'', '{', '[', '|', '>', '#']);
    if text.starts_with("```") {
        return Some("take the Markdown out: a document is YAML or JSON and nothing around it");
    }
    if text.starts_with("//") || text.starts_with("/*") || (is_json && text.contains(" //")) {
        return Some(COMMENT);
    }
    if let Some(help) = pasted(indent).or_else(|| pasted(value)) {
        return Some(help);
    }
    if is_json || text.starts_with('#') {
        return None;
    }
    if indent.contains('\t') {
        return Some(TAB);
    }
    if value.starts_with(['@', '%', '*', '`']) {
        return Some("put the text in quotes: this character may not begin a plain one");
    }
    if is_plain && value.contains(": ") {
        return Some("the text needs quotes: it has a `: ` in it");
    }
    let is_key = |(key, rest): (&str, &str)| {
        !key.contains(' ') && !rest.is_empty() && !rest.starts_with([' ', '/'])
    };
    let no_space = is_plain && text == value && text.split_once(':').is_some_and(is_key);
    no_space.then_some("put a space after the `:`")
}

/// Returns where the reader stopped. Its scanner knows line and column alone.
fn place_of(location: serde_saphyr::Location, source: &Arc<Source>) -> Place {
    let place = Place { source: Arc::clone(source), ..Place::from(location) };
    if place.line == 0 {
        return Place::start(source);
    }
    if location.span().byte_offset().is_some() {
        return place;
    }
    let mut lines = source.text.split_inclusive('\n');
    let before: usize = lines.by_ref().take(place.line - 1).map(str::len).sum();
    let line = lines.next().unwrap_or_default().chars();
    let inside: usize = line.take(place.column.saturating_sub(1)).map(char::len_utf8).sum();
    Place { offset_bytes: before + inside, len_bytes: 1, ..place }
}

/// Says in this project's words what the reader refused.
fn explain(error: &Error) -> (String, &'static str) {
    match error {
        Error::AliasError { error, .. } => explain(error),
        Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => (
            format!(
                "the aliases (`*name`) of this document make more than {DOCUMENT_ALIAS_NODES_MAX} values"
            ),
            "write plain values in the place of aliases that stand for many",
        ),
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        Error::Budget { breach: BudgetBreach::Documents { .. }, .. }
        | Error::MultipleDocuments { .. } => (
            "a second document in one file".to_owned(),
            "put it into a file of its own, without `---`",
        ),
        Error::Budget { .. } => too_many(),
        Error::MergeKeyNotAllowed { .. } => (
            "the merge key `<<` is not allowed: YAML 1.2 has none".to_owned(),
            "delete this line, and write the keys here that it would bring in",
        ),
        Error::UnknownAnchor { .. } => (
            format!("{NOT_YAML}: `*` begins an alias, and nothing is called that"),
            "put the text in quotes, if it is one",
        ),
        Error::RecursiveReferencesRequireWeakTypes { .. } => (
            "an alias (`*name`) stands within what it stands for".to_owned(),
            "write the value itself in its place",
        ),
        // Nothing but keys is read as a text whatever it is.
        Error::NullIntoString { .. } | Error::Unexpected { expected: "string scalar", .. } => (
            "what stands here as a key is no text".to_owned(),
            "write a text before the `:`, in quotes where it is `null` or `~`; a value that begins with `{{` or `[` belongs in quotes",
        ),
        Error::NonFiniteFloat { value, .. } => (
            format!("`{}` is no number with an end", shown(value)),
            "write a number, or put it in quotes where it is a text",
        ),
        Error::Message { msg, .. } if *msg == too_long() => (too_long(), "shorten it"),
        Error::UnsupportedTag { tag, .. } => (
            format!("the tag `{}` is not allowed: documents hold plain values", shown(tag)),
            "delete the tag, and keep the value behind it",
        ),
        other => match syntax_message(other) {
            // The scanner's own bound on brackets, which has no variant of its own.
            bound if bound == "recursion limit exceeded" => too_deep(),
            message if message.contains("tab") => (format!("{NOT_YAML}: {message}"), TAB),
            message => (
                format!("{NOT_YAML}: {message}"),
                "look at the quotes, brackets and indentation of this line and the one before",
            ),
        },
    }
}

pub(super) fn too_deep() -> (String, &'static str) {
    (
        format!("nested deeper than {DOCUMENT_DEPTH_MAX} levels"),
        "take levels of mappings and lists out",
    )
}

pub(super) fn too_many() -> (String, &'static str) {
    (format!("more than {DOCUMENT_NODES_MAX} values"), "split the document")
}

pub(super) fn too_long() -> String {
    format!("a text of more than {DOCUMENT_TEXT_BYTES_MAX} bytes")
}

/// Returns the reader's own sentence without the place, which is shown beside it.
fn syntax_message(error: &Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or("the document cannot be read");
    // Whatever it quotes stands in our quotes.
    shown(line.split(" at line ").next().unwrap_or(line)).replace('\'', "`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Node, Box<DocumentError>> {
        parse(Path::new("t.yaml"), text.as_bytes())
    }

    fn refused(text: &str) -> DocumentError {
        *read(text).unwrap_err()
    }

    #[test]
    fn what_is_put_in_the_place_of_a_key_leaves_the_others_in_their_order() {
        let mut root = read("a: 1\nb: { c: 2 }\nd: 3\n").unwrap();
        root.put(&["a"], Node::default());
        root.put(&["b", "e"], Node::default());
        let keys = |node: &Node| node.entries().iter().map(|it| it.key.clone()).collect::<String>();
        assert_eq!((keys(&root), keys(root.below("b"))), ("abd".to_owned(), "ce".to_owned()));
    }

    #[test]
    fn the_deepest_allowed_nesting_leaves_a_threads_stack_room() {
        const STACK_BYTES: usize = 1_536 * 1_024;
        let deep = |levels: usize| format!("a: {}{}", "[".repeat(levels), "]".repeat(levels));
        let read_deep = move || read(&deep(DOCUMENT_DEPTH_MAX - 1)).map(|node| node.to_json());
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(read_deep).unwrap();
        thread.join().unwrap().unwrap();
        assert_eq!(refused(&deep(DOCUMENT_DEPTH_MAX)).reason, "nested deeper than 32 levels");
        assert_eq!(refused(&deep(100_000)).reason, "nested deeper than 32 levels");
    }

    #[test]
    fn every_key_and_value_knows_its_place() {
        let node = read("a: 1\nb:\n  - x: true\n    y: \"t\"\n").unwrap();
        let b = node.entry("b").unwrap();
        assert_eq!((b.at.line, b.at.column), (2, 1));
        let item = &b.node.items()[0];
        assert_eq!((item.at.line, item.at.column), (3, 5));
        let y = item.entry("y").unwrap();
        assert_eq!((y.at.line, y.at.column, y.at.offset_bytes), (4, 5, 24));
        assert_eq!((y.node.at.line, y.node.at.column), (4, 8));
        assert_eq!(node.to_json(), serde_json::json!({"a": 1, "b": [{"x": true, "y": "t"}]}));
    }

    #[test]
    fn json_is_read_the_same_way() {
        let node = read("{\"a\": [1, 2.5, null, \"no\"],\n \"b\": {\"c\": false}}").unwrap();
        assert_eq!(
            node.to_json(),
            serde_json::json!({"a": [1, 2.5, null, "no"], "b": {"c": false}})
        );
        assert_eq!(node.get(&["b", "c"]).unwrap().at.line, 2);
    }

    #[test]
    fn only_true_and_false_are_booleans() {
        let node = read("a: no\nb: on\nc: true\n").unwrap();
        assert_eq!(node.to_json(), serde_json::json!({"a": "no", "b": "on", "c": true}));
    }

    #[test]
    fn a_key_is_there_once_and_both_lines_are_named() {
        for (text, second, first) in [
            ("a: 1\nb: 2\na: 3\n", 3, 1),
            ("{\"a\": 1,\n \"a\": 2}", 2, 1),
            ("x:\n  - a: 1\n    'a': 2\n", 3, 2),
            ("- 1: x\n  y:\n    1: x\n  \"1\": x\n", 4, 1),
        ] {
            let DocumentError { line, reason, .. } = refused(text);
            assert_eq!(line, second, "{reason}");
            assert!(
                reason.ends_with(&format!("is there twice, first in line {first}")),
                "{reason}"
            );
        }
        assert!(read("- a: 1\n- a: 2\n").is_ok());
    }

    #[test]
    fn a_second_document_a_merge_key_and_a_strange_tag_are_refused() {
        refused("a: 1\n---\nb: 2\n");
        refused("a: &a {x: 1}\nb:\n  <<: *a\n");
        refused("a: !ruby/object:Gem {}\n");
    }

    #[test]
    fn bombs_are_refused_quickly() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let item = format!("*a{}", level - 1);
            bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![item; 10].join(", ")));
        }
        refused(&bomb);
        refused(&"[".repeat(10_000));
        refused(&"a:\n".repeat(3).replace("a:", "- - - - - - - - - -").repeat(10_000));
        let large = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 500].join(", "));
        refused(&large);
        refused(&"x".repeat(DOCUMENT_BYTES_MAX + 1));
    }

    #[test]
    fn a_syntax_error_is_shown_in_its_own_line() {
        let deep = format!("a: 1\nb: {}", "[".repeat(40));
        for (text, line) in [
            ("a: 1\nb: [1,\n\t]x: 2\n", 3),
            ("ä: 1\nb: one: two\n", 2),
            ("a: 1\nb: {c: 1\n", 2),
            ("a:\n    b: 1\n  c: 2\n", 3),
            (&deep, 2),
        ] {
            let problem = refused(text);
            let start = text.lines().take(line - 1).map(|line| line.len() + 1).sum::<usize>();
            let end = text.lines().take(line).map(|line| line.len() + 1).sum::<usize>();
            assert_eq!(problem.line, line, "{text:?}: {problem}");
            let (begin, _) = problem.span();
            assert!((start..=end).contains(&begin), "{text:?}: {begin}");
        }
    }

    #[test]
    fn what_is_yaml_and_cannot_be_used_is_told_as_that() {
        let long = format!("a: 1\nb: {}", "x".repeat(DOCUMENT_TEXT_BYTES_MAX + 1));
        for (text, line, reason) in [
            ("a:\n  null: 1", 2, "what stands here as a key is no text"),
            ("a:\n  ~: 1", 2, "what stands here as a key is no text"),
            ("a: 1\nb: {{ x }}", 2, "what stands here as a key is no text"),
            ("a: 1\nb: .inf", 2, "`.inf` is no number with an end"),
            ("a: 1\nb: 1e400", 2, "`1e400` is no number with an end"),
            ("a: 1\nb: &b { c: *b }", 2, "an alias (`*name`) stands within what it stands for"),
            (&long, 2, "a text of more than 65536 bytes"),
        ] {
            let problem = refused(text);
            assert_eq!((problem.line, problem.reason.as_str()), (line, reason));
        }
    }

    #[test]
    fn what_is_not_utf8_is_refused() {
        assert!(parse(Path::new("t.yaml"), b"a: \xff").is_err());
    }

    #[test]
    fn times_are_a_number_and_a_unit() {
        let node = read("a: [0s, 90s, 5m, 30d, 999999999d]").unwrap();
        let times = node.list(&["a"]).iter().map(|item| item.duration(&[]).unwrap().as_secs());
        assert!(times.eq([0, 90, 300, 2_592_000, 86_399_999_913_600]));
        for text in ["5", "s", "", "5ms", "+5s", "1234567890s", "5 s", "5é"] {
            assert_eq!(read(&format!("'{text}'")).unwrap().duration(&[]), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(Path::new("t.yaml"), &bytes);
        }

        #[test]
        fn no_yaml_like_text_panics_the_reader(text in "[a-c:\\-\\[\\]{},&*!|>'\"# \n\t?~<0-9.]{0,120}") {
            if let Err(problem) = parse(Path::new("t.yaml"), text.as_bytes()) {
                let _ = problem.one_line();
            }
        }
    }
}
