use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;

const TOKENS: Tokens = Tokens::new([9; crate::screen::TOKEN_KEY_BYTES]);

fn wanted() -> Wanted {
    let mut wanted = Wanted::all_of("secrets");
    for word in ["pii", "internal"] {
        crate::screen::kinds_of(word)
            .iter()
            .for_each(|kind| wanted.add(kind, "", crate::screen::Action::Redact));
    }
    wanted
}

fn replaced(text: &str) -> String {
    replace(text, 0..text.len(), &find(None, text, &wanted(), &TOKENS))
}

#[test]
fn every_spelling_of_a_value_gets_the_same_token() {
    let email = TOKENS.marker("email", "ann@corp.test");
    let encoded = STANDARD.encode("mail ann@corp.test");
    for text in [
        "ann@corp.test",
        "ann%40corp.test",
        r"ann\u0040corp.test",
        "ann&#64;corp.test",
        "ann%2540corp.test",
        "Ann@Corp.test",
        "ann\u{200b}@corp.test",
        &encoded,
        &encoded.replace('=', "%3D"),
    ] {
        assert_eq!(replaced(&format!("<{text}>")), format!("<{email}>"), "{text}");
    }
    let phone = TOKENS.marker("phone", "2025550143");
    assert_eq!(replaced("(202) 555-0143, 202-555-0143"), format!("{phone}, {phone}"));
}

#[test]
fn what_no_layer_changes_is_found_once() {
    let text = "ann@corp.test %41 %2541 \\u0041 \\\\u0041 &amp; &amp;amp; bob%40corp.test";
    let hits = everywhere(text, 0, &wanted(), &TOKENS);
    assert_eq!(hits.iter().filter(|hit| hit.at == (0..13)).count(), 1, "{hits:?}");
    let marker = |name: &str| TOKENS.marker("email", name);
    let (ann, bob) = (marker("ann@corp.test"), marker("bob@corp.test"));
    let shown = replaced(text);
    assert!(shown.starts_with(&ann) && shown.ends_with(&bob), "{shown}");
}

#[test]
fn a_credential_is_found_in_base64() {
    let line = "password=hunter2hunter2\n";
    for encoded in [STANDARD.encode(line), URL_SAFE_NO_PAD.encode(format!("?{line}"))] {
        let shown = replaced(&format!("data: {encoded};"));
        assert!(shown.starts_with("data: [password or key:") && shown.ends_with("];"), "{shown}");
    }
}

#[test]
fn of_what_overlaps_the_strictest_kind_stands_for_all() {
    let mut wanted = Wanted::default();
    wanted.add("password in an address", "p", crate::screen::Action::Warn);
    wanted.add("private ip", "p", crate::screen::Action::Block);
    let hit = |at: Range<usize>, name| Hit { at, name, marker: String::new() };
    let hits = vec![
        hit(0..9, "password in an address"),
        hit(4..12, "private ip"),
        hit(12..13, "private ip"),
    ];
    assert_eq!(apart(hits, &wanted), [hit(0..12, "private ip"), hit(12..13, "private ip")]);
}

#[test]
fn bytes_that_are_no_text_do_not_hide_what_is_beside_them() {
    assert!(replaced("%ff%feann%40corp.test%ff").starts_with("%ff%fe[email:"));
}

proptest! {
    #[test]
    fn what_is_found_lies_in_order_and_outside_of_it_nothing_changes(
        text in "(ann@corp\\.test|%40|10\\.0\\.0\\.7|\\+1 202 555 0143|&amp;|\\\\u0040|password=|[a-z0-9.@ é:/]{1,16}){0,12}"
    ) {
        let hits = find(None, &text, &wanted(), &Tokens::default());
        let mut done = 0;
        for hit in &hits {
            prop_assert!(hit.at.start >= done && hit.at.end > hit.at.start);
            done = hit.at.end;
        }
        prop_assert!(done <= text.len());
        prop_assert_eq!(replaced(&text) != text, !hits.is_empty());
    }
}
