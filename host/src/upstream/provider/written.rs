//! A request as its client wrote it, in the body that is sent in its place.
//!
//! Values are held in the order of their keys, and a model that is given a schema writes what it describes in the
//! order of its properties: what nobody changes is sent as it came. Deliberately absent: finding out whether it is
//! JSON, as all of it was read before.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::iter;

use serde_json::Value;

/// Where schemas stand that the host never changes, whatever else it does.
const SCHEMAS: [&str; 4] = ["output_config", "output_format", "response_format", "text"];
/// Where schemas stand behind which the host puts its own.
const TOOLS: &str = "tools";

/// The members of a request as they were written.
#[derive(Debug, Default)]
pub(super) struct Written<'a> {
    members: BTreeMap<String, &'a str>,
    is_changed: bool,
}

impl<'a> Written<'a> {
    /// Reads the members of `bytes`, an object that the host may have changed since.
    pub(super) fn new(bytes: &'a [u8], is_changed: bool) -> Self {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let mut all = parts(text).into_iter();
        let pairs = iter::from_fn(|| Some((all.next()?, all.next()?)));
        let member = |(key, value)| Some((serde_json::from_str(key).ok()?, value));
        Self { members: pairs.filter_map(member).collect(), is_changed }
    }

    /// Returns `body` with the members of `own` in it, all else as it came where that did not change.
    pub(super) fn with<'v>(
        &self,
        mut body: BTreeMap<&'v str, &'v Value>,
        own: &[(&'v str, &'v Value)],
    ) -> String {
        body.extend(own.iter().copied());
        let mut text = String::from("{");
        for (key, value) in body {
            text.push_str(if text.len() > 1 { "," } else { "" });
            text.push_str(&Value::from(key).to_string());
            text.push(':');
            let is_own = own.iter().any(|(own, _)| *own == key);
            let came = self.members.get(key).copied().filter(|_| !is_own);
            text.push_str(&self.member(key, came, value));
        }
        text.push('}');
        text
    }

    fn member(&self, key: &str, came: Option<&'a str>, value: &Value) -> Cow<'a, str> {
        match came {
            Some(came) if !self.is_changed || SCHEMAS.contains(&key) => came.into(),
            Some(came) if key == TOOLS => longer(came, value).into(),
            _ => value.to_string().into(),
        }
    }
}

/// Returns a list, its first items as they came.
fn longer(came: &str, list: &Value) -> String {
    let (first, all) = (parts(came), list.as_array().map_or(&[][..], Vec::as_slice));
    if first.is_empty() || first.len() > all.len() {
        return list.to_string();
    }
    let more = all.iter().skip(first.len()).map(|item| Cow::from(item.to_string()));
    let all: Vec<Cow<'_, str>> = first.iter().map(|item| Cow::from(*item)).chain(more).collect();
    format!("[{}]", all.join(","))
}

/// Returns what a list holds, or the keys and values of an object; nothing of any other JSON.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0_usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        if is_text {
            is_text = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            continue;
        }
        let is_end = matches!(byte, b']' | b'}');
        if depth == 1 && (is_end || matches!(byte, b',' | b':')) {
            parts.push(text.get(begin..at).unwrap_or_default().trim());
            begin = at + 1;
        }
        match byte {
            b'"' => is_text = true,
            b'[' | b'{' => {
                if depth == 0 {
                    begin = at + 1;
                }
                depth += 1;
            }
            _ if is_end => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent(came: &str, body: &Value, is_changed: bool) -> String {
        let all = body.as_object().unwrap().iter().map(|(key, value)| (key.as_str(), value));
        let model = json!("m");
        Written::new(came.as_bytes(), is_changed).with(all.collect(), &[("model", &model)])
    }

    #[test]
    fn parts_are_found_whatever_stands_in_them_and_between() {
        let odd = r#" { "a\"}" : [1, {"x" :2}] ,"b":"[,\\" , "":{ }, "c": null}"#;
        let found = [r#""a\"}""#, r#"[1, {"x" :2}]"#, r#""b""#, r#""[,\\""#, r#""""#, "{ }"];
        assert_eq!(parts(odd)[..6], found);
        assert_eq!(parts(odd)[6..], [r#""c""#, "null"]);
        assert_eq!(parts(r#"[[], ["x"] , 1e3 ]"#), ["[]", r#"["x"]"#, "1e3"]);
        for none in ["", "{}", " [ ] ", "null", "7", r#""{\"a\":1}""#] {
            assert!(parts(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn what_did_not_change_is_sent_as_it_came() {
        let came = r#"{ "z": {"b":1.0, "a":1e3}, "model" : "p", "\u0061": [ ] }"#;
        let body = serde_json::from_str(came).unwrap();
        assert_eq!(sent(came, &body, false), r#"{"a":[ ],"model":"m","z":{"b":1.0, "a":1e3}}"#);
        assert_eq!(sent(came, &body, true), r#"{"a":[],"model":"m","z":{"a":1000.0,"b":1.0}}"#);
    }

    #[test]
    fn schemas_keep_their_order_and_tools_of_the_host_stand_behind_those_of_the_client() {
        let (schema, tool) =
            (r#"{"z":{}, "a":{}}"#, r#"{"name":"t", "input_schema":{"b":1,"a":2}}"#);
        let came = format!(r#"{{"response_format":{schema},"tools":[{tool} ],"messages":[]}}"#);
        let mut body: Value = serde_json::from_str(&came).unwrap();
        body["tools"].as_array_mut().unwrap().push(json!({ "name": "o" }));
        body["messages"] = json!(["x"]);
        let rest = format!(r#""response_format":{schema},"tools":[{tool},{{"name":"o"}}]}}"#);
        assert_eq!(sent(&came, &body, true), format!(r#"{{"messages":["x"],"model":"m",{rest}"#));
        // What is shorter than it was is another list.
        body["tools"] = json!([]);
        assert!(sent(&came, &body, true).ends_with(r#""tools":[]}"#));
        assert_eq!(
            sent(r#"{"tools":null}"#, &json!({ "tools": [1] }), true),
            r#"{"model":"m","tools":[1]}"#
        );
    }
}
