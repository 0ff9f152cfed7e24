//! The redactor: no known value leaves, in any spelling that is promised, in any pieces.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use clawhost_core::limits::{REDACT_ROUNDS_MAX, REDACT_VALUE_BYTES};
use clawhost_core::redact::Redactor;
use clawhost_core::reply::{Content, ToolReply};
use serde_json::{Value, json};

use super::input::Input;

/// Reads `data` as how to spell a value, where to cut, the value, and what is around it.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let (how, layers, cut) = (input.below(5), input.below(REDACT_ROUNDS_MAX + 1), input.byte());
    let kinds = [(); REDACT_ROUNDS_MAX].map(|()| input.below(4));
    let (value, before, after) = (input.text(), input.text(), input.text());
    let redactor = Redactor::new([("N", value.as_bytes())]).expect("one value is not too much");
    harmless(&redactor, &format!("{before}{after}"));
    // What is put in a value's place must not be a part of it, or there is no end.
    let is_like_the_marker =
        value.contains(['[', ']']) || "[redacted:n]".contains(&value.to_ascii_lowercase());
    if value.len() < REDACT_VALUE_BYTES || is_like_the_marker {
        return;
    }
    let spelled = kinds[..layers].iter().fold(spell(&value, how), |text, kind| wrap(&text, *kind));
    let whole = format!("{before} {spelled} {after}");
    let shown = redactor.text(&whole).into_owned();
    assert!(shown.contains("[redacted:N]"), "{spelled:?} stays in {shown:?}");
    assert!(!shown.contains(&spelled) || how == 1 || how == 2, "{spelled:?} stays in {shown:?}");
    assert!(!shown.contains(&value), "{value:?} stays in {shown:?}");
    assert_eq!(redactor.text(&shown), shown, "there is nothing left to take out");
    in_pieces(&redactor, &whole, usize::from(cut));
    in_a_reply(&redactor, &whole, usize::from(cut));
}

fn harmless(redactor: &Redactor, text: &str) {
    let mut masked = text.as_bytes().to_vec();
    redactor.mask(&mut masked);
    assert_eq!(masked.len(), text.len());
    assert!(redactor.unfinished(text.as_bytes()) <= text.len());
}

fn spell(value: &str, how: usize) -> String {
    match how {
        0 => value.to_owned(),
        1 => STANDARD.encode(format!("u:{value}")),
        2 => URL_SAFE_NO_PAD.encode(value),
        3 => value.bytes().map(|byte| format!("{byte:02x}")).collect(),
        _ => value.to_ascii_uppercase(),
    }
}

fn wrap(text: &str, kind: usize) -> String {
    let pairs = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#39;")];
    match kind {
        0 => text.bytes().map(|byte| format!("%{byte:02X}")).collect(),
        1 => Value::from(text).to_string(),
        2 => pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to)),
        _ => text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect(),
    }
}

/// A stream that is passed on as far as it is safe leaks no more than the whole does.
fn in_pieces(redactor: &Redactor, whole: &str, size: usize) {
    let (mut held, mut passed) = (Vec::new(), Vec::new());
    // What is held is searched for each part: long texts come in fewer of them.
    for part in whole.as_bytes().chunks(1 + size + whole.len() / 32) {
        held.extend_from_slice(part);
        redactor.mask(&mut held);
        let waits = redactor.unfinished(&held);
        passed.extend(held.drain(..held.len() - waits));
    }
    passed.extend(held);
    let text = String::from_utf8_lossy(&passed);
    assert_eq!(redactor.text(&text), text, "{whole:?} was let through");
}

fn in_a_reply(redactor: &Redactor, whole: &str, cut: usize) {
    let at = whole.floor_char_boundary(cut);
    let blocks = [&whole[..at], &whole[at..]].map(|text| Content::Text(text.to_owned()));
    let structured = Some(json!({"k": [whole], whole: 1}));
    let reply = ToolReply { content: blocks.to_vec(), structured, ..ToolReply::default() };
    let shown = redactor.reply(reply);
    let again = redactor.reply(shown.clone());
    assert_eq!(format!("{shown:?}"), format!("{again:?}"), "there is nothing left to take out");
    assert!(format!("{shown:?}").matches("[redacted:N]").count() >= 3, "{whole:?}: {shown:?}");
}
