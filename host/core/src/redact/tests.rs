use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::redactor::Found;
use super::*;
use crate::error::{CallError, ErrorKind};
use crate::limits::REDACT_VALUE_BYTES;
use crate::reply::{Content, ResourceBody, ToolReply};

fn knows(values: &[(&str, &str)]) -> Redactor {
    Redactor::new(values.iter().map(|(name, value)| (*name, value.as_bytes()))).unwrap()
}

fn text(block: &Content) -> &str {
    let Content::Text(text) = block else {
        panic!("no text: {block:?}");
    };
    text
}

#[test]
fn a_value_is_replaced_by_its_name_and_the_rest_stays() {
    let redactor = knows(&[("TOKEN", "s3cr3t-value"), ("OTHER", "another one")]);
    assert_eq!(redactor.text("ä s3cr3t-value ö"), "ä [redacted:TOKEN] ö");
    assert_eq!(redactor.text("s3cr3t-valuanother one"), "s3cr3t-valu[redacted:OTHER]");
    assert!(matches!(redactor.text("s3cr3t-valu"), Cow::Borrowed(_)));
    assert!(!redactor.is_empty() && Redactor::default().is_empty());
}

#[test]
fn values_that_overlap_leave_no_end_behind() {
    let redactor = knows(&[("A", "abcdefgh"), ("B", "efghijkl")]);
    assert_eq!(redactor.text("<abcdefghijkl>"), "<[redacted:A]>");
}

#[test]
fn a_text_of_nothing_but_a_value_is_one_hit() {
    let redactor = knows(&[("A", "aaaaaaaa")]);
    assert_eq!(redactor.find(&[b'a'; 1_000]), [Found { at: 0..1_000, secret: 0 }]);
    assert_eq!(redactor.text(&"a".repeat(1_000)), "[redacted:A]");
}

#[test]
fn short_values_are_whole_words_and_shorter_ones_nothing() {
    let redactor = knows(&[("PIN", "1234"), ("BIT", "1"), ("WORD", "test")]);
    assert_eq!(redactor.text("Test test"), "Test [redacted:WORD]");
    assert_eq!(redactor.text("1 pin=1234, 12345, x1234"), "1 pin=[redacted:PIN], 12345, x1234");
    assert_eq!(
        redactor.json(json!({"pin": 1234, "one": 1})),
        json!({"pin": "[redacted:PIN]", "one": 1})
    );
}

#[test]
fn nothing_shows_a_value() {
    assert_eq!(format!("{:?}", knows(&[("A", "abcdefgh")])), "Redactor { values: 1, .. }");
}

#[test]
fn encoded_values_are_found() {
    let redactor = knows(&[("T", "pa ss/wörd+\"1")]);
    for (spelled, expected) in [
        ("pa%20ss%2Fw%C3%B6rd%2b%221", "[redacted:T]"),
        ("x=pa+ss%2Fw%c3%b6rd%2B%221&y", "x=[redacted:T]&y"),
        (r#"{"a":"pa ss\/w\u00f6rd+\"1"}"#, r#"{"a":"[redacted:T]"}"#),
        (r#""{\"a\":\"pa ss/wörd+\\\"1\"}""#, r#""{\"a\":\"[redacted:T]\"}""#),
        (r#"w: pa ss/w\u{f6}rd+\"1!"#, "w: [redacted:T]!"),
        ("70612073732F77C3B67264 2b2231", "70612073732F77C3B67264 2b2231"),
        ("7061 70612073732f77c3b672642b2231", "7061 [redacted:T]"),
        ("<b>pa ss/w&#246;rd+&quot;1</b>", "<b>[redacted:T]</b>"),
        ("&#112;a ss/w&#xf6;rd&#x0002b;&#34;1", "[redacted:T]"),
        ("pa%20ss/w%26%23246%3Brd+%26quot;1", "[redacted:T]"),
        ("PA Ss/wörd+\"1", "[redacted:T]"),
    ] {
        assert_eq!(redactor.text(spelled), expected, "{spelled}");
    }
}

#[test]
fn the_lines_of_a_value_end_in_either_way() {
    for key in
        ["-----BEGIN-----\nc2VjcmV0\n-----END-----", "-----BEGIN-----\r\nc2VjcmV0\r\n-----END-----"]
    {
        let redactor = knows(&[("KEY", key)]);
        let unix = key.replace("\r\n", "\n");
        for spelled in [unix.clone(), unix.replace('\n', "\r\n"), unix.replace('\n', r"\r\n")] {
            assert_eq!(redactor.text(&format!("<{spelled}>")), "<[redacted:KEY]>", "{spelled}");
        }
    }
}

#[test]
fn a_value_in_the_quotes_and_escapes_of_shells_and_languages_is_found() {
    let redactor =
        knows(&[("T", "it's-a-s3cret"), ("T", "smile-😀-s3cret"), ("T", "a\x07b\x0bc\x1b-s3cret")]);
    for spelled in [
        r"'it'\''s-a-s3cret'",
        r#"'it'"'"'s-a-s3cret'"#,
        r"$'it\'s-a-s3cret'",
        r"$'it\047s\x2da\55s3cret'",
        r"$'\x69t\u0027s-\141-s3cret'",
        r"'it\U00000027s-a-s3cret'",
        r"'smile-\U0001f600-s3cret'",
        r"$'smile-\360\237\230\200-s3cret'",
        r"$'a\ab\vc\e-s3cret'",
    ] {
        for text in [spelled.to_owned(), Value::from(spelled).to_string()] {
            let shown = redactor.text(&text).into_owned();
            assert!(shown.contains("[redacted:T]") && !shown.contains("s3cret"), "{shown}");
        }
    }
}

#[test]
fn a_value_in_two_or_four_bytes_a_letter_is_found() {
    let redactor = knows(&[("T", "s3cret-of-the-test")]);
    let wide: Vec<u8> =
        "x s3cret-of-the-test y".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let turned: Vec<u8> = wide.chunks(2).flat_map(|pair| [pair[1], pair[0]]).collect();
    let wider: Vec<u8> = wide.chunks(2).flat_map(|pair| [pair[0], pair[1], 0, 0]).collect();
    let turned_wider: Vec<u8> = wider.chunks(4).flat_map(|c| [c[3], c[2], c[1], c[0]]).collect();
    for bytes in [wider, turned_wider] {
        let found = redactor.bytes(&bytes).into_owned();
        assert!(String::from_utf8_lossy(&found).contains("[redacted:T]"), "{found:?}");
    }
    for bytes in [wide, turned] {
        let found = redactor.bytes(&bytes).into_owned();
        assert!(String::from_utf8_lossy(&found).contains("[redacted:T]"), "{found:?}");
        for text in [STANDARD.encode(&bytes), crate::digest::hex(&bytes)] {
            assert!(redactor.text(&text).contains("[redacted:T]"), "{text}");
        }
        let json = serde_json::to_string(std::str::from_utf8(&bytes).unwrap()).unwrap();
        assert!(redactor.text(&json).contains("[redacted:T]"), "{json}");
    }
}

#[test]
fn basic_credentials_are_found() {
    let redactor = knows(&[("T", "abcdefghijkl")]);
    for user in ["", "u", "us", "use", "user"] {
        let header = format!("Basic {}", STANDARD.encode(format!("{user}:abcdefghijkl")));
        let shown = redactor.text(&header).into_owned();
        assert!(shown.contains("[redacted:T]"), "{header}: {shown}");
    }
}

#[test]
fn a_value_spread_over_text_blocks_is_found() {
    let redactor = knows(&[("T", "abcdefghijkl")]);
    let content = ["x abcd", "", "efgh", "ijkl y", "z"].map(|text| Content::Text(text.to_owned()));
    let reply = redactor.reply(ToolReply { content: content.to_vec(), ..ToolReply::default() });
    let texts: Vec<&str> = reply.content.iter().map(text).collect();
    assert_eq!(texts, ["x [redacted:T]", "", "", " y", "z"]);
}

#[test]
fn every_part_of_a_reply_and_of_an_error_is_searched() {
    let value = "abcdefghijkl";
    let redactor = knows(&[("T", value)]);
    let bytes = || value.as_bytes().to_vec();
    let object = |value: Value| value.as_object().cloned().unwrap();
    let resource = |body| Content::Resource {
        uri: format!("https://x/?t={value}"),
        mime_type: Some(value.to_owned()),
        body,
    };
    let reply = ToolReply {
        content: vec![
            Content::Text(value.to_owned()),
            Content::Image { data: bytes(), mime_type: value.to_owned() },
            Content::Audio { data: bytes(), mime_type: value.to_owned() },
            resource(ResourceBody::Text(value.to_owned())),
            resource(ResourceBody::Bytes(bytes())),
            Content::Link(object(json!({"uri": format!("x:{value}")}))),
        ],
        extras: [(0, object(json!({"_meta": {value: 1}})))].into(),
        meta: object(json!({"k": [value]})),
        structured: Some(json!({value: [value, {"x": format!("-{value}-")}]})),
        internal: Some(value.to_owned()),
        ..ToolReply::default()
    };
    let shown = format!("{:?}", redactor.reply(reply));
    assert!(!shown.contains(value) && !shown.contains(&format!("{:?}", bytes())), "{shown}");
    let error = CallError::new(ErrorKind::Upstream, value).with_internal(value).with(value, value);
    let shown = format!("{:?}", redactor.error(error));
    assert!(!shown.contains(value) && shown.contains("[redacted:T]"), "{shown}");
}

#[test]
fn what_stands_before_a_text_hides_nothing_in_it() {
    let redactor = knows(&[("long", "hunter2-hunter2"), ("word", "opal"), ("number", "31415926")]);
    let hidden = ["hunter2-hunter2", "opal", "%6fpal", "&#111;pal", "\\u006fpal", "31415926"];
    for before in ["\\", "%", "%6", "&", "&#111", "\\u00", "\\\\u{6f", "\0", "\\ ", "x", ""] {
        for text in hidden {
            let after = redactor.json(json!([before, text, 31_415_926]));
            let alone = redactor.json(json!(text));
            assert_eq!((&after[1], &after[2]), (&alone, &json!("[redacted:number]")), "{before:?}");
            assert!(alone.as_str().unwrap().starts_with("[redacted:"), "{text}");
        }
    }
}

#[test]
fn a_mask_keeps_the_length() {
    let mut bytes = *b"x abcdefgh y";
    knows(&[("T", "abcdefgh")]).mask(&mut bytes);
    assert_eq!(&bytes, b"x ******** y");
}

#[test]
fn a_part_of_a_stream_says_what_it_may_end_in() {
    let redactor = knows(&[("T", "abcdefgh")]);
    for (part, expected) in [("", 0), ("x", 0), ("x a", 1), ("abcdefg", 7), ("abcdefgh!", 0)] {
        assert_eq!(redactor.unfinished(part.as_bytes()), expected, "{part}");
    }
    assert_eq!(redactor.unfinished(b"6162"), 4);
    for (part, expected) in
        [(r"x\1", 2), (r"x\14", 3), (r"x\141", 4), (r"x\141b", 5), (r"x\0", 2), (r"\141x", 0)]
    {
        assert_eq!(redactor.unfinished(part.as_bytes()), expected, "{part}");
    }
    // The longest escape, but for its end.
    assert_eq!(redactor.text("&#0000000097;bcdefgh"), "[redacted:T]");
    assert_eq!(redactor.unfinished(b"x&#0000000097"), 12);
}

#[test]
fn of_a_long_text_no_more_is_searched_than_may_be_left_of_it() {
    let redactor = knows(&[("T", "abcdefgh")]);
    let escaped: String = "abcdefgh".chars().map(|c| format!("\\U{:08x}", u32::from(c))).collect();
    let (text, shown) = (format!("{escaped} ").repeat(100), "[redacted:T] ");
    // Four of them are in four times a hundred bytes, and the beginning of a fifth.
    assert_eq!(redactor.short(&text, 100), shown.repeat(4));
    // Of what the end of these cuts off, nothing stays.
    assert_eq!(redactor.short(&format!("xyz{text}"), 100), format!("xyz{}", shown.repeat(4)));
    assert_eq!(redactor.short(&format!("é{escaped} "), 100), format!("é{shown}"));
    assert_eq!(redactor.short(&escaped, 5), "");
    assert_eq!(Redactor::default().short("éa", 2), "é");
}

#[test]
fn nothing_stays_of_a_value_that_goes_on_where_another_one_ends() {
    let redactor = knows(&[("A", "abcdefgh"), ("B", "abcdefgh:ijklmnop"), ("C", "qrstuvqr")]);
    for text in ["x abcdefgh:ijklmnop", "qrstuvqrstuvqr"] {
        for end in 0..text.len() {
            let begun = String::from_utf8(redactor.begun(&text.as_bytes()[..end])).unwrap();
            let left = begun.replace("[redacted:A]", "").replace("[redacted:C]", "");
            assert!("x ".starts_with(&left), "{begun}");
        }
    }
    assert_eq!(redactor.begun(b"x abcdefgh y!"), b"x [redacted:A] y!");
    let one: String = (0..100).map(|number| format!("{number:02}")).collect();
    let other = format!("{one}:ijklmnop");
    let redactor = knows(&[("A", &one), ("B", &other)]);
    // Four bytes behind the first value are searched.
    assert_eq!(redactor.short(&other, 51), "");
    assert_eq!(redactor.short(&format!("{one}:xy! and more"), 51), "[redacted:A]:xy!");
}

/// How a value may be written by somebody who means no harm.
fn spell(value: &str, how: usize, around: &str) -> String {
    let percent = |keep: fn(u8) -> bool, upper: bool| -> String {
        let one = |byte: u8| match (keep(byte), upper) {
            (true, _) => char::from(byte).to_string(),
            (false, true) => format!("%{byte:02X}"),
            (false, false) => format!("%{byte:02x}"),
        };
        value.bytes().map(one).collect()
    };
    let json = |text: &str| Value::from(text).to_string();
    match how {
        0 => value.to_owned(),
        1 => STANDARD.encode(format!("{around}{value}{around}")),
        2 => URL_SAFE.encode(format!("{around}{value}")),
        3 => value.bytes().map(|byte| format!("{byte:02x}")).collect(),
        4 => value.bytes().map(|byte| format!("{byte:02X}")).collect(),
        5 => percent(|byte| byte.is_ascii_alphanumeric(), true),
        6 => percent(|byte| byte.is_ascii() && !b"%?#&".contains(&byte), false),
        7 => percent(|_| false, false),
        8 => json(value),
        9 => json(&json(value)),
        10 => value.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect(),
        11 => format!("{value:?}"),
        12 => html(value),
        13 => json(&html(value)),
        14 => value.to_ascii_uppercase(),
        _ => json(&percent(|byte| byte.is_ascii_alphanumeric(), false)),
    }
}

fn html(value: &str) -> String {
    let pairs = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#x27;")];
    pairs.iter().fold(value.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn anything(reply: &ToolReply) -> String {
    let mut texts = String::new();
    for block in &reply.content {
        texts.push_str(text(block));
    }
    texts + &reply.structured.clone().unwrap_or_default().to_string()
}

#[test]
fn an_escape_at_the_very_end_is_taken_out_whole() {
    let redactor = knows(&[("N", r"0\aaA0%aa")]);
    let mut text = br"0\\\\aaA0%aa".to_vec();
    redactor.mask(&mut text);
    assert_eq!(String::from_utf8(text).unwrap(), "*".repeat(12));
}

#[test]
fn a_value_that_looks_escaped_is_found_behind_layers_of_different_escapes() {
    for value in ["s\u{fffd}\"\"\"\"E\\&", r"a%41\u0042&amp;", r"p\%26w&lt;o\\rd"] {
        let redactor = knows(&[("N", value)]);
        for layers in [[12, 12, 10], [7, 8, 12], [12, 7, 8], [8, 12, 7], [10, 7, 12]] {
            let spelled = layers.iter().fold(value.to_owned(), |text, how| spell(&text, *how, ""));
            let shown = redactor.text(&spelled).into_owned();
            assert!(shown.contains("[redacted:N]"), "{value} as {spelled} stays in {shown}");
        }
    }
}

proptest! {
    #[test]
    fn no_secret_survives_layers_of_different_escapes(
        value in "[ -~]{8,20}|[%&a\\\\;1]{8,12}",
        // Each of them one layer.
        layers in proptest::collection::vec(
            prop::sample::select(vec![5_usize, 6, 7, 8, 10, 11, 12]),
            0..=crate::limits::REDACT_ROUNDS_MAX,
        ),
        before in "[%&a\\\\;1\"]{0,6}",
    ) {
        let redactor = knows(&[("N", &value)]);
        let spelled = layers.iter().fold(value.clone(), |text, how| spell(&text, *how, ""));
        let shown = redactor.text(&format!("{before} {spelled}")).into_owned();
        prop_assert!(shown.contains("[redacted:N]"), "{} in {}", spelled, shown);
    }

    #[test]
    fn no_secret_survives_in_any_spelling_anywhere(
        value in "\\PC{8,40}",
        how in 0_usize..16,
        around in "[ -~]{0,4}",
        before in "\\PC{0,20}",
        after in "\\PC{0,20}",
        cut in 0_usize..200,
    ) {
        prop_assume!(value.len() >= REDACT_VALUE_BYTES);
        let redactor = knows(&[("N", &value)]);
        let spelled = spell(&value, how, &around);
        let whole = format!("{before} {spelled} {after}");
        // Cut into two blocks at some character.
        let at = whole.floor_char_boundary(cut);
        let blocks = [&whole[..at], &whole[at..]].map(|text| Content::Text(text.to_owned()));
        let structured = Some(json!({"k": [{"x": whole}], whole.as_str(): 1}));
        let reply = ToolReply { content: blocks.to_vec(), structured, ..ToolReply::default() };
        let reply = redactor.reply(reply);
        let shown = anything(&reply);
        prop_assert!(shown.matches("[redacted:N]").count() >= 3, "{} in {}", spelled, shown);
        prop_assert!(how == 1 || how == 2 || !shown.contains(&spelled), "{} in {}", spelled, shown);
        prop_assert_eq!(redactor.text(&shown), shown.as_str());
    }

    #[test]
    fn no_spelling_goes_past_where_a_stream_is_cut(
        // What is left of an escape of the last character would tell nothing.
        value in "[ -~]{8,20}[a-z]",
        how in 0_usize..16,
        before in "[a-z<]{0,5}",
        size in 1_usize..9,
    ) {
        let redactor = knows(&[("N", &value)]);
        let whole = format!("{before}{}", spell(&value, how, ""));
        let (mut held, mut passed) = (Vec::new(), Vec::new());
        for part in whole.as_bytes().chunks(size) {
            held.extend_from_slice(part);
            redactor.mask(&mut held);
            let waits = redactor.unfinished(&held);
            passed.extend(held.drain(..held.len() - waits));
        }
        passed.extend(held);
        let mut at_once = whole.clone().into_bytes();
        redactor.mask(&mut at_once);
        // Where the value may be read before its last escape is complete, as in `a&amp;` the
        // value `a&a`, it is masked then, and the rest of that escape tells nothing.
        let ends = |end: &usize| !redactor.find(&whole.as_bytes()[..*end]).is_empty();
        let end = (0..whole.len()).find(ends).unwrap_or(whole.len());
        prop_assert_eq!(passed.len(), whole.len());
        prop_assert_eq!(&passed[..end], &at_once[..end], "{:?}", String::from_utf8_lossy(&passed));
    }

    #[test]
    fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let redactor = knows(&[("A", "abcdefgh"), ("B", "ab\\ncd%41")]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        drop(redactor.text(&text));
        let mut masked = bytes.clone();
        redactor.mask(&mut masked);
        prop_assert_eq!(masked.len(), bytes.len());
    }

    #[test]
    fn escapes_of_any_kind_are_read_without_harm(text in "[%\\\\u0-9a-fDd{}xn\"é]{0,60}") {
        let redactor = knows(&[("A", "abcdefgh"), ("B", "0123456789")]);
        let shown = redactor.text(&text);
        prop_assert_eq!(redactor.text(&shown), shown.as_ref());
    }
}
