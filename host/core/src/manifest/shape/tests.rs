//! Tables, documents and what is said about them.

use super::super::node;
use super::super::problem::{DocumentError, Problems};
use super::*;
use std::path::Path;

const INNER: Shape =
    Shape::Record(&[req("n", &POSITIVE), opt("mode", &Shape::OneOf(&["on", "off"]))]);
const OUTER: Shape = Shape::Record(&[
    opt("inner", &INNER),
    opt("share", &SHARE),
    opt("age", &DURATION),
    opt("names", &Shape::List { of: &TEXT, min: 1 }),
    opt("labels", &Shape::Dict(&STRING)),
    opt("kept", &Shape::Served { now: &["here"], later: &["there"], help: "write `here`" }),
    opt("sealed", &Shape::Off { help: "leave it out" }),
    opt("more", &Shape::Later { help: "take it out" }),
]);

/// Returns the way to every value that no other contains, and what belongs there.
pub(crate) fn leaves(shape: &'static Shape, path: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    values(shape, path, &mut found);
    let below = |(path, shape): &(String, &'static Shape)| match shape {
        Shape::Dict(of @ Shape::Record(_)) => leaves(of, &format!("{path}.<name>")),
        Shape::List { of: of @ Shape::Record(_), .. } => leaves(of, &format!("{path}[]")),
        _ => vec![(path.clone(), expected(shape, path))],
    };
    found.iter().flat_map(below).collect()
}

fn problems(text: &str) -> Vec<String> {
    told_of(text, &OUTER)
}

fn told_of(text: &str, shape: &'static Shape) -> Vec<String> {
    let node = node::parse(Path::new("t.yaml"), text.as_bytes()).unwrap();
    let mut problems = Problems::default();
    check(&mut problems, &node, shape, "");
    match problems.finish(Some(())) {
        Ok(()) => Vec::new(),
        Err(list) => list.iter().map(DocumentError::one_line).collect(),
    }
}

#[test]
fn what_fits_is_accepted() {
    let text = "inner: {n: 1, mode: off}\nshare: 0.5\nage: 30d\nnames: [a]\nlabels: {x: y}\n";
    assert_eq!(problems(text), Vec::<String>::new());
    assert_eq!(problems("share: 1"), Vec::<String>::new());
}

#[test]
fn every_mismatch_is_reported_with_its_place() {
    let text = "innr: 1\ninner: {mode: onn}\nshare: 2\nage: soon\nnames: []\nlabels: {x: 1}\n";
    assert_eq!(
        problems(text),
        [
            "t.yaml:1:1: unknown key `innr` (did you mean `inner`? possible here: inner, share, age, names, labels, kept, sealed)",
            "t.yaml:2:8: `inner.n` is missing (add `n:` with a whole number of 1 or more)",
            "t.yaml:2:15: `inner.mode` is `onn` (did you mean `on`? possible here: on, off)",
            "t.yaml:3:8: `share` is the number 2 (write a number from 0 to 1)",
            "t.yaml:4:6: `age` is the text `soon` (write a time such as 90s, 5m, 24h or 30d)",
            "t.yaml:5:8: `names` is empty (add at least one entry: a text)",
            "t.yaml:6:13: `labels.x` is the number 1 (put it in quotes: `\"1\"`)",
        ]
    );
}

#[test]
fn a_number_in_the_place_of_a_text_is_quoted_as_it_is_written() {
    for (written, quoted) in
        [("1.10", "1.10"), ("0123", "0123"), ("12e3", "12e3"), ("true", "true"), ("0x1f", "31")]
    {
        let told = problems(&format!("labels: {{x: {written}}} # 5\n"));
        let help = format!("(put it in quotes: `\"{quoted}\"`)");
        assert!(told.len() == 1 && told[0].ends_with(&help), "{written}: {told:?}");
    }
    let told = problems("share: 1.10\n");
    assert_eq!(told, ["t.yaml:1:8: `share` is the number 1.10 (write a number from 0 to 1)"]);
}

#[test]
fn what_is_not_served_is_reported_and_fits() {
    let text = "kept: there\nsealed: true\nmore: [1]\n";
    let node = node::parse(Path::new("t.yaml"), text.as_bytes()).unwrap();
    let mut all = Problems::default();
    assert!(check(&mut all, &node, &OUTER, ""));
    assert_eq!(
        problems(text),
        [
            "t.yaml:1:7: `kept: there` is not served by this version (write `here`)",
            "t.yaml:2:9: `sealed: true` is not served by this version (leave it out)",
            "t.yaml:3:1: `more` is not served by this version (take it out)",
        ]
    );
    assert_eq!(problems("kept: here\nsealed: false\n"), Vec::<String>::new());
    assert_eq!(problems("kept: where"), ["t.yaml:1:7: `kept` is `where` (write `here`)"]);
}

#[test]
fn the_wrong_kind_of_value_is_reported_once() {
    assert_eq!(problems("[1]").len(), 1);
    assert_eq!(problems("inner: 5").len(), 1);
    assert_eq!(
        problems("inner:\nshare: 1\n"),
        ["t.yaml:1:1: `inner` has no value (write `{ n: … }` (also possible: mode))"]
    );
    assert_eq!(
        problems("age: 10 d"),
        ["t.yaml:1:6: `age` is the text `10 d` (write a time such as 90s, 5m, 24h or 30d)"]
    );
}

const WORDS: Shape = shape!({
    name: NAME,
    secret: SECRET,
    url: URL,
    tool: (Shape::Ref(Kind::Tool)),
    idle: (idle { flag: FLAG } " (later)"),
    tools: [(Shape::Ref(Kind::Tool))],
});

#[test]
fn names_secrets_and_addresses_are_told_what_would_be_right() {
    let long = "a".repeat(64);
    for (text, expected) in [
        (
            "name: a_b",
            "the name `a_b` is not allowed (write `a-b`: names in documents have hyphens)",
        ),
        (&format!("name: {long}"), "(it has 64 characters: write 63 at most)"),
        ("secret: a b", "`secret` is no name of a secret (write the name, not the value"),
        ("url: localhost:11434/v1", "`url` has no scheme (write `http://localhost:11434/v1`)"),
        ("url: a.example/v1", "`url` has no scheme (write `https://a.example/v1`)"),
        ("url: 'me:hunter2@a.example'", "`url` has a user name in it (take the user and"),
        ("url: 'https://me:hunter2@a.example/'", "`url` has a user name in it (take the user and"),
        ("url: ftp://a.example/", "`url` is no web address (write `https://host[:port]/path`"),
        (
            "tool: ''",
            "`tool` is an empty text (write the name of a Tool, or claw://local/tool/<name>)",
        ),
        ("flag: true", "unknown key `flag` (put it under `idle:`)"),
        ("token: x", "; values do not stand in documents"),
    ] {
        let told = told_of(text, &WORDS);
        assert!(told.len() == 1 && told[0].contains(expected), "{text}: {told:?}");
        assert!(!told[0].contains("hunter2"), "{told:?}");
    }
}

#[test]
fn references_and_what_is_idle_are_found_wherever_a_shape_has_them() {
    let text = "tool: a\ntools: [b, c]\nidle: { flag: false }\n";
    let node = node::parse(Path::new("t.yaml"), text.as_bytes()).unwrap();
    let (mut names, mut idle) = (Vec::new(), Vec::new());
    each(&node, &WORDS, "", &mut |node, shape, path| match shape {
        Shape::Ref(Kind::Tool) => names.extend(node.as_text()),
        Shape::Idle { remark, .. } => idle.push(format!("{path}{remark}")),
        _ => {}
    });
    assert_eq!((names, idle), (vec!["a", "b", "c"], vec!["idle (later)".to_owned()]));
}
