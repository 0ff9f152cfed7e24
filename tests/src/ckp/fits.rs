//! Whether a value is what a vector expects.

use serde_json::Value;

/// Says what of `found` does not fit `wanted`: an object may have more members than are wanted, a
/// list has its items in order, and marks stand for values of a kind.
///
/// # Errors
/// The place and both values.
pub fn fits(wanted: &Value, found: &Value) -> Result<(), String> {
    at("", wanted, found)
}

fn at(place: &str, wanted: &Value, found: &Value) -> Result<(), String> {
    let differs = || Err(format!("at `{place}`: {wanted} is wanted and {found} is found"));
    match (wanted, found) {
        (Value::String(mark), _) if mark.starts_with('$') => {
            if is_a(mark, found) {
                Ok(())
            } else {
                differs()
            }
        }
        (Value::Object(wanted), Value::Array(items)) if wanted.contains_key("$some") => {
            let some = &wanted["$some"];
            if items.iter().any(|item| at(place, some, item).is_ok()) { Ok(()) } else { differs() }
        }
        (Value::Object(wanted), _) if wanted.contains_key("$exact") => {
            if wanted["$exact"] == *found { Ok(()) } else { differs() }
        }
        (Value::Object(members), Value::Object(_)) => members
            .iter()
            .try_for_each(|(key, value)| at(&format!("{place}/{key}"), value, &found[key])),
        (Value::Array(wanted), Value::Array(items)) if wanted.len() == items.len() => {
            let mut pairs = wanted.iter().zip(items).enumerate();
            pairs.try_for_each(|(index, (wanted, item))| {
                at(&format!("{place}/{index}"), wanted, item)
            })
        }
        _ if wanted == found => Ok(()),
        _ => differs(),
    }
}

fn is_a(mark: &str, found: &Value) -> bool {
    match mark {
        "$any" => true,
        "$list" => found.is_array(),
        "$number" => found.is_number(),
        "$text" => found.is_string(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_differs_is_found_and_what_fits_is_not() {
        let found = json!({"a": [1, {"b": "x"}], "c": 2});
        for wanted in [
            json!({}),
            json!({"c": "$number"}),
            json!({"a": [1, {"b": "$text"}]}),
            json!({"a": {"$some": {"b": "x"}}}),
            json!({"c": {"$exact": 2}}),
            json!("$any"),
        ] {
            assert_eq!(fits(&wanted, &found), Ok(()), "{wanted}");
        }
        for wanted in [
            json!({"d": 1}),
            json!({"c": "$text"}),
            json!({"a": [1]}),
            json!({"a": {"$some": {"b": "y"}}}),
            json!({"a": {"$exact": [1]}}),
            json!({"c": "$misspelt"}),
            json!([]),
        ] {
            assert!(fits(&wanted, &found).is_err(), "{wanted}");
        }
    }
}
