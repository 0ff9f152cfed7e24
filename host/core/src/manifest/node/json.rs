//! From a JSON value that was read already to a tree.
//!
//! Its values are counted in the order in which they are written: a place's line is such a number.

use serde_json::Value as Json;

use super::parse::{too_deep, too_long, too_many};
use super::{Entry, Node, Place, Value};
use crate::limits::{DOCUMENT_DEPTH_MAX, DOCUMENT_NODES_MAX, DOCUMENT_TEXT_BYTES_MAX};

/// What is wrong, and what would be right.
type Refused = (String, &'static str);

/// Returns the tree of `value`, within the bounds that hold for a document's text.
pub(crate) fn from_json(value: &Json) -> Result<Node, Refused> {
    node(value, &mut 0, DOCUMENT_DEPTH_MAX)
}

fn node(value: &Json, count: &mut usize, depth_left: usize) -> Result<Node, Refused> {
    *count += 1;
    if *count > DOCUMENT_NODES_MAX {
        return Err(too_many());
    }
    let at = Place { line: *count, ..Place::default() };
    let mut below = |value: &Json| {
        let depth_left = depth_left.checked_sub(1).ok_or_else(too_deep)?;
        node(value, count, depth_left)
    };
    let value = match value {
        Json::Array(list) => Value::List(list.iter().map(below).collect::<Result<_, _>>()?),
        Json::Object(object) => {
            let entries = object.iter().map(|(key, value)| {
                let node = below(value)?;
                Ok(Entry { key: key.clone(), at: node.at.clone(), node })
            });
            Value::Map(entries.collect::<Result<_, Refused>>()?)
        }
        Json::Bool(flag) => Value::Flag(*flag),
        Json::Null => Value::Null,
        Json::Number(number) => Value::Number(number.clone()),
        Json::String(text) if text.len() > DOCUMENT_TEXT_BYTES_MAX => {
            return Err((too_long(), "shorten it"));
        }
        Json::String(text) => Value::Text(text.clone()),
    };
    Ok(Node { at, value })
}

/// Returns the JSON pointer (RFC 6901) of the value of a number, nothing where there is none.
/// `escaped` writes a key.
pub(crate) fn pointer(value: &Json, number: usize, escaped: fn(&str) -> String) -> Option<String> {
    search(value, &mut { number }, escaped)
}

/// `left` counts the values down; at 1 it is this one.
fn search(value: &Json, left: &mut usize, escaped: fn(&str) -> String) -> Option<String> {
    *left = left.checked_sub(1)?;
    match value {
        _ if *left == 0 => Some(String::new()),
        Json::Array(list) => list.iter().enumerate().find_map(|(index, child)| {
            search(child, left, escaped).map(|below| format!("/{index}{below}"))
        }),
        Json::Object(object) => object.iter().find_map(|(key, child)| {
            search(child, left, escaped).map(|below| format!("/{}{below}", escaped(key)))
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_has_a_number_that_leads_back_to_it() {
        let value = json!({"a": [], "b": [1, {"c": {}, "d/": [true]}], "e": null});
        let node = from_json(&value).unwrap();
        assert_eq!(node.to_json(), value);
        assert_eq!(node.get(&["e"]).unwrap().at.line, 9);
        let places: Vec<_> = (1..=10).map(|line| pointer(&value, line, str::to_owned)).collect();
        let expected = ["", "/a", "/b", "/b/0", "/b/1", "/b/1/c", "/b/1/d/", "/b/1/d//0", "/e"];
        let expected = expected.map(|pointer| Some(pointer.to_owned())).into_iter().chain([None]);
        assert!(places.iter().cloned().eq(expected), "{places:?}");
    }

    #[test]
    fn what_json_may_hold_and_yaml_may_not_is_read_and_the_bounds_hold() {
        let odd = json!({"a": "\u{7f}", "k".repeat(2_000): 1});
        assert_eq!(from_json(&odd).unwrap().to_json(), odd);
        let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        assert!(from_json(&deep(DOCUMENT_DEPTH_MAX)).is_ok());
        assert!(from_json(&deep(DOCUMENT_DEPTH_MAX + 1)).is_err());
        assert!(from_json(&json!(vec![0; DOCUMENT_NODES_MAX])).is_err());
        assert!(from_json(&json!("x".repeat(DOCUMENT_TEXT_BYTES_MAX + 1))).is_err());
    }
}
