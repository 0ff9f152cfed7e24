//! Members of JSON objects that may be left out.

use serde_json::Value;

/// Adds a member to `object` where there is a value for it.
pub(super) fn put(object: &mut Value, key: &str, value: Option<Value>) {
    if let (Some(members), Some(value)) = (object.as_object_mut(), value) {
        members.insert(key.to_owned(), value);
    }
}
