//! Cutting what is too long, honestly: on a character border, with the true size stated.

mod strings;

use serde_json::{Map, Value};

pub(crate) use self::strings::level;
use crate::json::{self, Length};
use crate::reply::{Content, ResourceBody, ToolReply};

/// Bytes of JSON around the content blocks of a reply.
const FRAME_BYTES: usize = 256;
/// JSON around one content block: its type, its keys, its quotes.
const BLOCK_BYTES: usize = 96;
/// Reasons of one kind that are told: who mends those knows the others.
const REASONS_MAX: usize = 10;

/// Cuts `text` to at most `bytes_max` bytes on a character border.
pub fn text(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or("")
}

/// Returns the first reasons of all, and last how many more there are.
pub fn reasons(mut all: impl Iterator<Item = String>) -> Vec<String> {
    let mut told: Vec<String> = all.by_ref().take(REASONS_MAX).collect();
    match all.count() {
        0 => {}
        more => told.push(format!("and {more} more")),
    }
    told
}

/// Cuts `text` to what takes at most `bytes_max` within a text of JSON, on a character border.
pub fn escaped(text: &str, bytes_max: usize) -> &str {
    prefix(text, bytes_max, escaped_char_len)
}

/// The same where that JSON is a text of JSON itself.
pub(crate) fn twice_escaped(text: &str, bytes_max: usize) -> &str {
    prefix(text, bytes_max, strings::twice_escaped_char_len)
}

/// Cuts `reply` so that it serialises to at most `bytes_max` bytes of JSON.
///
/// Of a structured value the longest strings are shortened, so that it stays what its tool promises
/// and fits as itself and as the text that shows it. One that other things make too long becomes text,
/// but for an envelope, which says the beginning of what it holds as a text.
/// Of blocks that say something else what does not fit is replaced from the end: text is cut and says
/// its true size, other blocks are left out. `cut_from_bytes` then holds the true size, and
/// `said_bytes` that of what it says, once.
pub fn reply(mut reply: ToolReply, bytes_max: usize) -> ToolReply {
    let Sizes { all: size, shown, said } = sizes_of(&reply);
    if size <= bytes_max {
        return reply;
    }
    (reply.cut_from_bytes, reply.said_bytes) = (Some(size), Some(said));
    // Said of what is cut.
    reply.extras.clear();
    reply.meta.clear();
    if shorten_value(&mut reply, shown, bytes_max) {
        return reply;
    }
    let note =
        format!("\n[cut: the whole result is {size} bytes of JSON, {bytes_max} are allowed]");
    let value = reply.structured.as_ref().map_or(0, |value| Length::of(value).plain);
    let mut left = bytes_max.saturating_sub(FRAME_BYTES + BLOCK_BYTES + escaped_len(&note) + value);
    let mut kept = Vec::new();
    for block in reply.content {
        let block_size = size_of_block(&block);
        if block_size <= left {
            left -= block_size;
            kept.push(block);
            continue;
        }
        if let Content::Text(long) = block {
            let room = left.saturating_sub(BLOCK_BYTES);
            kept.push(Content::Text(prefix(&long, room, escaped_char_len).to_owned()));
        }
        break;
    }
    append_note(&mut kept, &note);
    ToolReply { content: kept, ..reply }
}

/// Shortens the structured value, which takes `shown`, or makes it text; says whether that and its
/// text are all of the reply, and fit.
fn shorten_value(reply: &mut ToolReply, shown: usize, bytes_max: usize) -> bool {
    let Some(mut value) = reply.structured.take() else { return false };
    let is_all = is_shown_alone(&reply.content, &value);
    let room = bytes_max.saturating_sub(FRAME_BYTES + BLOCK_BYTES);
    let mut fits = strings::shorten(&mut value, shown, room);
    if !fits && reply.is_envelope {
        write_out(&mut value);
        let shown = Length::of(&value).shown();
        fits = strings::shorten(&mut value, shown, room);
    }
    if is_all {
        reply.content = vec![Content::Text(value.to_string())];
    } else if !fits {
        // No other block says what it holds.
        reply.content.push(Content::Text(value.to_string()));
    }
    reply.structured = fits.then_some(value);
    fits && is_all
}

/// Writes what an envelope holds as a text, and how long that is.
fn write_out(envelope: &mut Value) {
    for place in ["/data", "/error/details"] {
        let held = envelope.pointer_mut(place).filter(|held| held.is_array() || held.is_object());
        let Some(held) = held else { continue };
        let text = held.to_string();
        let bytes = text.len();
        *held = text.into();
        if let Some(envelope) = envelope.as_object_mut() {
            envelope.insert("truncated".to_owned(), true.into());
            envelope.entry("original_bytes").or_insert_with(|| bytes.into());
        }
    }
}

/// Says whether blocks show nothing but `value`: none, or its JSON.
pub fn is_shown_alone(content: &[Content], value: &Value) -> bool {
    match content {
        [] => true,
        [Content::Text(text)] => json::parse(text.as_bytes()).is_ok_and(|said| said == *value),
        _ => false,
    }
}

fn append_note(content: &mut Vec<Content>, note: &str) {
    match content.last_mut() {
        Some(Content::Text(last)) => last.push_str(note),
        _ => content.push(Content::Text(note.trim_start().to_owned())),
    }
}

/// Returns the size of `reply` as serialised JSON, in bytes, within a few of the exact one
/// and never below it.
pub fn size_of(reply: &ToolReply) -> usize {
    sizes_of(reply).all
}

/// What a reply takes as serialised JSON, in bytes.
struct Sizes {
    all: usize,
    /// The structured value, and the text that shows it: JSON within JSON.
    shown: usize,
    /// What it says, without JSON around it and without a copy.
    said: usize,
}

fn sizes_of(reply: &ToolReply) -> Sizes {
    let blocks: usize = reply.content.iter().map(size_of_block).sum();
    let structured = reply.structured.as_ref().map(Length::of).unwrap_or_default();
    let shown = structured.shown();
    // A reply without blocks shows its structured value as text too.
    let value = if reply.content.is_empty() { shown } else { structured.plain };
    let more = reply.extras.values().chain([&reply.meta]).map(size_of_object);
    let all = FRAME_BYTES + blocks + value + more.sum::<usize>();
    let said = match &reply.structured {
        Some(_) => structured.plain,
        None => reply.content.iter().map(said_by).sum(),
    };
    Sizes { all, shown, said }
}

fn said_by(block: &Content) -> usize {
    match block {
        Content::Text(text) | Content::Resource { body: ResourceBody::Text(text), .. } => {
            text.len()
        }
        other => size_of_block(other),
    }
}

fn size_of_block(block: &Content) -> usize {
    BLOCK_BYTES
        + match block {
            Content::Text(text) => escaped_len(text),
            Content::Link(link) => size_of_object(link),
            Content::Image { data, mime_type } | Content::Audio { data, mime_type } => {
                base64_len(data.len()) + escaped_len(mime_type)
            }
            Content::Resource { uri, mime_type, body } => {
                let body = match body {
                    ResourceBody::Text(text) => escaped_len(text),
                    ResourceBody::Bytes(bytes) => base64_len(bytes.len()),
                };
                body + escaped_len(uri) + mime_type.as_deref().map_or(0, escaped_len)
            }
        }
}

fn size_of_object(object: &Map<String, Value>) -> usize {
    object.iter().map(|(key, value)| escaped_len(key) + 4 + value.to_string().len()).sum()
}

const fn base64_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

fn escaped_len(text: &str) -> usize {
    text.chars().map(escaped_char_len).sum()
}

fn escaped_char_len(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        '\u{0}'..='\u{1f}' => 6,
        _ => c.len_utf8(),
    }
}

/// Returns the longest prefix of `text` whose characters cost at most `cost_max`.
fn prefix(text: &str, cost_max: usize, cost: fn(char) -> usize) -> &str {
    let mut sum = 0;
    let end = text.char_indices().find_map(|(at, c)| {
        sum += cost(c);
        (sum > cost_max).then_some(at)
    });
    end.map_or(text, |end| text.get(..end).unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn picture() -> Content {
        Content::Image { data: vec![0; 30], mime_type: "image/png".to_owned() }
    }

    #[test]
    fn a_long_value_stays_one_beside_the_text_that_shows_it() {
        let value = json!({"status": 200, "text": "\"x\"\n".repeat(2_000)});
        let shown = Content::Text(serde_json::to_string_pretty(&value).unwrap());
        for content in [vec![], vec![shown]] {
            let whole =
                ToolReply { content, structured: Some(value.clone()), ..ToolReply::default() };
            let cut = reply(whole, 4_000);
            let kept = cut.structured.as_ref().unwrap();
            assert_eq!(cut.content, [Content::Text(kept.to_string())]);
            assert_eq!(kept["status"], 200);
            assert!(kept["text"].as_str().unwrap().ends_with("[cut: 8000 bytes in all]"));
            assert!((3_000..=4_000).contains(&size_of(&cut)), "{}", size_of(&cut));
        }
    }

    #[test]
    fn what_a_value_is_shown_with_is_cut_for_itself() {
        let content = vec![picture(), Content::Text("b".repeat(9_000))];
        let structured = Some(json!({"text": "a".repeat(9_000)}));
        let cut = reply(ToolReply { content, structured, ..ToolReply::default() }, 4_000);
        assert!(cut.structured.as_ref().unwrap()["text"].as_str().unwrap().starts_with("aaa"));
        let [first, Content::Text(second)] = cut.content.as_slice() else { panic!("{cut:?}") };
        assert_eq!(*first, picture());
        assert!(second.starts_with("bbb") && second.contains("[cut: the whole"), "{second}");
        assert!(size_of(&cut) <= 4_000, "{}", size_of(&cut));
    }

    #[test]
    fn a_value_that_no_shorter_string_makes_fit_is_text() {
        let structured = Some(json!({"list": vec![1; 9_000]}));
        for beside in [None, Some(Content::Text("9000 ones".to_owned()))] {
            let content = beside.iter().cloned().collect();
            let structured = structured.clone();
            let cut = reply(ToolReply { content, structured, ..ToolReply::default() }, 4_000);
            assert_eq!(cut.structured, None);
            assert_eq!(cut.content.len(), 1 + usize::from(beside.is_some()));
            assert!(beside.is_none_or(|beside| cut.content[0] == beside), "{cut:?}");
            let Some(Content::Text(text)) = cut.content.last() else { panic!("{cut:?}") };
            assert!(text.starts_with("{\"list\":[1,1,"), "{text}");
            assert!(text.contains("[cut: the whole"), "{text}");
            assert!(size_of(&cut) <= 4_000, "{}", size_of(&cut));
        }
    }

    #[test]
    fn an_envelope_stays_one_whatever_it_holds() {
        let list = json!(vec![1; 9_000]);
        let good = json!({"ok": true, "status_code": 200, "data": list});
        let error = json!({"code": "http_422", "message": "no", "details": {"list": list}});
        let bad = json!({"ok": false, "status_code": 422, "error": error});
        for (envelope, place, said) in
            [(good, "/data", Vec::new()), (bad, "/error/details", vec![Content::Text("no".into())])]
        {
            let (whole, content) = (envelope.pointer(place).unwrap().to_string(), said);
            let envelope = ToolReply {
                content,
                structured: Some(envelope.clone()),
                is_envelope: true,
                ..ToolReply::default()
            };
            let cut = reply(envelope.clone(), 4_000);
            let (kept, before) = (cut.structured.as_ref().unwrap(), envelope.structured.unwrap());
            for same in ["/ok", "/status_code", "/error/code", "/error/message"] {
                assert_eq!(kept.pointer(same), before.pointer(same), "{kept}");
            }
            let text = kept.pointer(place).unwrap().as_str().unwrap();
            assert!(whole.starts_with(text.split(" [cut: ").next().unwrap()), "{text}");
            assert_eq!(
                (&kept["truncated"], &kept["original_bytes"]),
                (&json!(true), &json!(whole.len()))
            );
            assert!(size_of(&cut) <= 4_000, "{}", size_of(&cut));
        }
    }

    proptest! {
        #[test]
        fn a_cut_reply_fits_and_states_its_true_size(s in "\\PC{0,400}|[\\x00-\\x1f\"\\\\]{0,400}", max in 600usize..1500) {
            let before = ToolReply { content: vec![Content::Text(s.clone()); 5], ..ToolReply::default() };
            let size = size_of(&before);
            let after = reply(before.clone(), max);
            prop_assert!(size_of(&after) <= max, "{} > {max}", size_of(&after));
            if size > max {
                prop_assert_eq!(after.cut_from_bytes, Some(size));
            } else {
                prop_assert_eq!(after, before);
            }
        }

        #[test]
        fn text_is_cut_on_a_character_border(s in "\\PC{0,50}", max in 0usize..60) {
            let cut = text(&s, max);
            prop_assert!(cut.len() <= max && s.starts_with(cut));
            prop_assert!(s.len() <= max || cut.len() + 4 > max);
        }
    }
}
