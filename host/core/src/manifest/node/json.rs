//! From a JSON value that was read already to a tree.
//!
//! Places are lines of the text that the value has when it is written with one item a line;
//! nobody has to write it for that.

use serde_json::Value as Json;

use super::parse::{DOCUMENT_DEPTH_MAX, DOCUMENT_NODES_MAX, too_deep, too_many};
use super::{Entry, Node, Place, TEXT_BYTES_MAX, Value};

/// What is wrong, and what would be right.
type Refused = (String, &'static str);

/// Returns the tree of `value`, within the bounds that hold for a document's text.
pub(crate) fn from_json(value: &Json) -> Result<Node, Refused> {
    Reader { line: 0, nodes_left: DOCUMENT_NODES_MAX }.node(value, DOCUMENT_DEPTH_MAX)
}

/// Returns the JSON pointer (RFC 6901) of what begins or ends in a line, nothing behind the last.
/// `escaped` writes a key.
pub(crate) fn pointer(value: &Json, line: usize, escaped: fn(&str) -> String) -> Option<String> {
    search(value, &mut { line }, escaped)
}

/// `left` counts the lines down; at 1 it is this one.
fn search(value: &Json, left: &mut usize, escaped: fn(&str) -> String) -> Option<String> {
    if *left <= 1 {
        return Some(String::new());
    }
    *left -= 1;
    let below = match value {
        Json::Array(list) => list.iter().enumerate().find_map(|(index, child)| {
            search(child, left, escaped).map(|below| format!("/{index}{below}"))
        }),
        Json::Object(object) => object.iter().find_map(|(key, child)| {
            search(child, left, escaped).map(|below| format!("/{}{below}", escaped(key)))
        }),
        _ => return None,
    };
    if below.is_some() || is_empty(value) {
        return below;
    }
    if *left <= 1 {
        return Some(String::new());
    }
    *left -= 1;
    None
}

fn is_empty(value: &Json) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(serde_json::Map::is_empty)
}

struct Reader {
    line: usize,
    nodes_left: usize,
}

impl Reader {
    fn node(&mut self, value: &Json, depth_left: usize) -> Result<Node, Refused> {
        self.line += 1;
        self.nodes_left = self.nodes_left.checked_sub(1).ok_or_else(too_many)?;
        let at = self.place();
        let value = match value {
            Json::Array(list) => {
                let depth = depth_left.checked_sub(1).ok_or_else(too_deep)?;
                let nodes = list.iter().map(|item| self.node(item, depth));
                Value::List(nodes.collect::<Result<_, _>>()?)
            }
            Json::Object(object) => {
                let depth = depth_left.checked_sub(1).ok_or_else(too_deep)?;
                let entries = object.iter().map(|(key, value)| {
                    let node = self.node(value, depth)?;
                    Ok(Entry { key: key.clone(), at: node.at, node })
                });
                Value::Map(entries.collect::<Result<_, Refused>>()?)
            }
            Json::Bool(flag) => Value::Flag(*flag),
            Json::Null => Value::Null,
            Json::Number(number) => Value::Number(number.clone()),
            Json::String(text) if text.len() > TEXT_BYTES_MAX => {
                return Err((format!("a text of more than {TEXT_BYTES_MAX} bytes"), "shorten it"));
            }
            Json::String(text) => Value::Text(text.clone()),
        };
        // The line that ends it.
        self.line += usize::from(matches!(&value, Value::List(items) if !items.is_empty()));
        self.line += usize::from(matches!(&value, Value::Map(entries) if !entries.is_empty()));
        Ok(Node { at, value })
    }

    const fn place(&self) -> Place {
        Place { line: self.line, ..Place::START }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_has_the_line_of_its_pretty_text_and_leads_back_there() {
        let value = json!({"a": [], "b": [1, {"c": {}, "d/": [true]}], "e": null});
        let node = from_json(&value).unwrap();
        assert_eq!(node.to_json(), value);
        assert_eq!(node.get(&["e"]).unwrap().at.line, 12);
        let lines = serde_json::to_string_pretty(&value).unwrap().lines().count();
        let places: Vec<String> =
            (1..=lines).filter_map(|line| pointer(&value, line, str::to_owned)).collect();
        let expected = [
            "",
            "/a",
            "/b",
            "/b/0",
            "/b/1",
            "/b/1/c",
            "/b/1/d/",
            "/b/1/d//0",
            "/b/1/d/",
            "/b/1",
            "/b",
            "/e",
            "",
        ];
        assert_eq!(places, expected);
        assert_eq!(pointer(&value, lines + 1, str::to_owned), None);
    }

    #[test]
    fn what_json_may_hold_and_yaml_may_not_is_read_and_the_bounds_hold() {
        let odd = json!({"a": "\u{7f}", "k".repeat(2_000): 1});
        assert_eq!(from_json(&odd).unwrap().to_json(), odd);
        let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        assert!(from_json(&deep(DOCUMENT_DEPTH_MAX)).is_ok());
        assert!(from_json(&deep(DOCUMENT_DEPTH_MAX + 1)).is_err());
        assert!(from_json(&json!(vec![0; DOCUMENT_NODES_MAX])).is_err());
        assert!(from_json(&json!("x".repeat(TEXT_BYTES_MAX + 1))).is_err());
    }
}
