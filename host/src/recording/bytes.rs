//! Bytes in a recording: as text where they are text, which most are.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Bytes that a guest was given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Blob(pub(crate) Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    Base64(String),
    Text(String),
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = match str::from_utf8(&self.0) {
            Ok(text) => Form::Text(text.to_owned()),
            Err(_) => Form::Base64(BASE64_STANDARD.encode(&self.0)),
        };
        form.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Form::deserialize(deserializer)? {
            Form::Text(text) => Ok(Self(text.into_bytes())),
            Form::Base64(text) => BASE64_STANDARD.decode(text).map(Self).map_err(D::Error::custom),
        }
    }
}

/// Adds the texts and bytes in an answer to `joined`, one after the other.
pub(super) fn join(answer: &Value, joined: &mut Vec<u8>) {
    match answer {
        Value::String(text) => joined.extend(text.as_bytes()),
        Value::Array(parts) => parts.iter().for_each(|part| join(part, joined)),
        Value::Object(parts) => match Blob::deserialize(answer) {
            Ok(Blob(bytes)) => joined.extend(bytes),
            Err(_) => parts.values().for_each(|part| join(part, joined)),
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_back_as_they_were_whatever_they_are() {
        for bytes in [&b""[..], b"text\n", b"\xff\0\xfe"] {
            let blob = Blob(bytes.to_vec());
            let text = serde_json::to_string(&blob).unwrap();
            assert_eq!(serde_json::from_str::<Blob>(&text).unwrap(), blob, "{text}");
        }
    }
}
