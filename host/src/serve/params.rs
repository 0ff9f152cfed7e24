//! Parameters: each is there and of its type, or the answer says which is not.
//!
//! Deliberately absent: defaults, but that a yes or a no which is left out is a no, and any guess at
//! what was meant.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::message::Fault;

/// The members of one object of a request's parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Params<'a> {
    members: &'a Map<String, Value>,
    /// How the object is reached, with a dot behind; empty for the parameters themselves.
    at: &'a str,
}

impl<'a> Params<'a> {
    /// Returns a request's parameters; none where they are no object.
    pub(crate) fn of(params: Option<&'a Value>) -> Self {
        static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
        Self::within(params.and_then(Value::as_object).unwrap_or(&NONE), "")
    }

    /// Returns an object inside, of which `at` says how it is reached, with a dot behind.
    pub(crate) const fn within(members: &'a Map<String, Value>, at: &'a str) -> Self {
        Self { members, at }
    }

    pub(crate) const fn members(&self) -> &'a Map<String, Value> {
        self.members
    }

    pub(crate) fn fault(&self, key: &str, reason: impl Into<String>) -> Fault {
        Fault::param(&format!("{}{key}", self.at), reason)
    }

    fn need<T>(&self, key: &str, value: Option<T>) -> Result<T, Fault> {
        value.ok_or_else(|| self.fault(key, "is missing"))
    }

    /// Returns a member that `read` can read, which is what it has to be.
    fn read<T>(
        &self,
        key: &str,
        what: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let wrong = || self.fault(key, format!("has to be {what}"));
        self.members.get(key).map(|value| read(value).ok_or_else(wrong)).transpose()
    }

    /// Refuses members other than `known`.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Fault> {
        match self.members.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => {
                let shown: String = key.chars().take(KEY_CHARS_SHOWN_MAX).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                Err(self.fault(&shown, format!("is not known here; known are {known}")))
            }
        }
    }

    /// Returns a member, whatever it is.
    pub(crate) fn any(&self, key: &str) -> Result<&'a Value, Fault> {
        self.need(key, self.members.get(key))
    }

    pub(crate) fn text_or_none(&self, key: &str) -> Result<Option<&'a str>, Fault> {
        self.read(key, "text", Value::as_str)
    }

    pub(crate) fn text(&self, key: &str) -> Result<&'a str, Fault> {
        let text = self.text_or_none(key)?;
        self.need(key, text)
    }

    /// Returns a text that is not empty.
    pub(crate) fn name(&self, key: &str) -> Result<&'a str, Fault> {
        match self.text(key)? {
            "" => Err(self.fault(key, "is empty")),
            text => Ok(text),
        }
    }

    pub(crate) fn object_or_none(
        &self,
        key: &str,
    ) -> Result<Option<&'a Map<String, Value>>, Fault> {
        self.read(key, "an object", Value::as_object)
    }

    pub(crate) fn object(&self, key: &str) -> Result<&'a Map<String, Value>, Fault> {
        let object = self.object_or_none(key)?;
        self.need(key, object)
    }

    pub(crate) fn list(&self, key: &str) -> Result<&'a [Value], Fault> {
        let list = self.read(key, "a list", Value::as_array)?;
        self.need(key, list).map(Vec::as_slice)
    }

    /// Returns a whole number of at least `min` that may be left out.
    pub(crate) fn number_or_none(&self, key: &str, min: u64) -> Result<Option<u64>, Fault> {
        let fits = |value: &Value| value.as_u64().filter(|number| *number >= min);
        self.read(key, &format!("a whole number of {min} or more"), fits)
    }

    /// Returns a yes or a no; what is left out is a no.
    pub(crate) fn flag(&self, key: &str) -> Result<bool, Fault> {
        Ok(self.read(key, "true or false", Value::as_bool)?.unwrap_or(false))
    }

    /// Returns a request's own id: 8-4-4-4-12 hexadecimal digits. The protocol's own examples are
    /// no UUIDs of RFC 4122, so their version is not looked at.
    pub(crate) fn request_id(&self, key: &str) -> Result<&'a str, Fault> {
        let text = self.text(key)?;
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let lengths = [8, 4, 4, 4, 12];
        let parts: Vec<&str> = text.split('-').take(lengths.len() + 1).collect();
        let fits = parts.len() == lengths.len()
            && parts.iter().zip(lengths).all(|(part, length)| part.len() == length && digits(part));
        if fits {
            return Ok(text);
        }
        Err(self.fault(key, "has to be a UUID: 8-4-4-4-12 hexadecimal digits"))
    }
}

/// How much of an unknown member's name an answer repeats.
const KEY_CHARS_SHOWN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_id_is_eight_four_four_four_twelve_hexadecimal_digits() {
        let read = |text: &str| {
            let members = json!({"request_id": text});
            Params::of(Some(&members)).request_id("request_id").is_ok()
        };
        assert!(read("550e8400-e29b-41d4-a716-446655440000"));
        assert!(read("AAAAAAAA-bbbb-cccc-dddd-eeeeeeeeeeee"));
        for wrong in [
            "",
            "550e8400",
            "550e8400-e29b-41d4-a716-44665544000",
            "550e8400-e29b-41d4-a716-446655440000-",
            "550e8400e29b-41d4-a716-4466-55440000",
            "{550e8400-e29b-41d4-a716-446655440000}",
            "550e8400-e29b-41d4-a716-44665544000g",
            "550e8400-e29b-41d4-a716-446655440000 ",
        ] {
            assert!(!read(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_fault_says_which_parameter_and_why() {
        let members = json!({"a": 1});
        let params = Params::within(members.as_object().unwrap(), "context.");
        let fault = params.text("a").unwrap_err();
        let data = json!({"param": "context.a", "reason": "has to be text"});
        assert_eq!((fault.code, Value::Object(fault.data)), (-32602, data));
        assert!(params.text("b").unwrap_err().message.contains("is missing"));
        assert!(params.only(&["b"]).is_err() && params.only(&["a"]).is_ok());
        assert!(params.number_or_none("a", 2).is_err());
    }
}
