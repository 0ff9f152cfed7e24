//! `web_search`: asks the one search service that the operator has set up.
//!
//! The service is asked with `q` and `count`, and answers in JSON: a list of results, or an
//! object that holds one under `results` or `web.results`. So Brave, SearXNG and services made
//! for the purpose can be used.

use claw_tool::http::{Request, URL_BYTES_MAX};
use claw_tool::{ToolError, env};
use serde_json::Value;

/// The variable that holds the service's address; the host sets it from `tools.web_search`.
const ENDPOINT: &str = "WEB_SEARCH_ENDPOINT";
/// The variable that holds what stands for the service's key.
const KEY: &str = "WEB_SEARCH_KEY";
/// The variable that names the header the key goes into.
const HEADER: &str = "WEB_SEARCH_HEADER";

/// The largest answer that is read.
const ANSWER_BYTES_MAX: usize = 1_048_576;
/// A title, an address or a description is shown up to here.
const SHOWN_CHARS_MAX: usize = 2_000;

/// Arguments of `web_search`.
#[claw_tool::input]
pub(crate) struct WebSearch {
    /// What to search for.
    #[schemars(length(min = 1, max = 2_000))]
    query: String,
    /// Results to return at most.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 50))]
    num_results: usize,
}

/// What the search service found.
#[claw_tool::output]
pub(crate) struct Results {
    /// The best ones first.
    results: Vec<Hit>,
}

/// One result.
#[claw_tool::output]
#[derive(PartialEq, Eq)]
struct Hit {
    /// Its title.
    title: String,
    /// Its address.
    url: String,
    /// A few words of it.
    description: String,
}

const fn five() -> usize {
    5
}

pub(crate) fn web_search(args: &WebSearch) -> Result<Results, ToolError> {
    let Some(endpoint) = env::var(ENDPOINT) else {
        return Err(ToolError::failed(
            "no search service is set up: the operator has to write tools.web_search.endpoint into clawhost.yaml",
        ));
    };
    let mut request = Request::new("GET", &address(&endpoint, &args.query, args.num_results)?)?
        .header("accept", "application/json");
    if let (Some(key), Some(header)) = (env::var(KEY), env::var(HEADER)) {
        let bearer = if header.eq_ignore_ascii_case("authorization") { "Bearer " } else { "" };
        request = request.header(&header, &format!("{bearer}{key}"));
    }
    // A redirect is not followed: it would lead to somebody the operator did not name.
    let response = request.send(ANSWER_BYTES_MAX)?;
    if response.status != 200 {
        let status = response.status;
        return Err(ToolError::failed(format!("the search service answered with status {status}")));
    }
    let answer = serde_json::from_slice(&response.body)
        .map_err(|_| ToolError::failed("the search service's answer is no JSON"))?;
    Ok(Results { results: hits(&answer, args.num_results)? })
}

/// The service's address with the question as its query. Only the question is the caller's, who is
/// not told the rest.
fn address(endpoint: &str, query: &str, count: usize) -> Result<String, ToolError> {
    let mut address = endpoint.to_owned();
    address.push(if endpoint.contains('?') { '&' } else { '?' });
    address.push_str("q=");
    for byte in query.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                address.push(char::from(byte));
            }
            other => address.push_str(&format!("%{other:02X}")),
        }
    }
    address.push_str(&format!("&count={count}"));
    if address.len() > URL_BYTES_MAX {
        return Err(ToolError::invalid_args(format!(
            "query is too long: percent-encoded it makes an address of {} bytes, and at most {URL_BYTES_MAX} are sent",
            address.len()
        )));
    }
    Ok(address)
}

fn hits(answer: &Value, most: usize) -> Result<Vec<Hit>, ToolError> {
    let places = [Some(answer), answer.get("results"), answer.pointer("/web/results")];
    let Some(list) = places.into_iter().flatten().find_map(Value::as_array) else {
        return Err(ToolError::failed("the search service's answer holds no list of results"));
    };
    let usable = list.iter().filter(|hit| hit.get("url").is_some_and(Value::is_string));
    Ok(usable.take(most).map(hit).collect())
}

fn hit(found: &Value) -> Hit {
    let text = |keys: &[&str]| {
        let text = keys.iter().find_map(|key| found.get(key)?.as_str()).unwrap_or_default();
        text.chars().take(SHOWN_CHARS_MAX).collect()
    };
    Hit {
        title: text(&["title", "name"]),
        url: text(&["url"]),
        description: text(&["description", "snippet", "content"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_question_stays_one_parameter() {
        assert_eq!(
            address("https://s.test/x", "a b&count=9#ü", 5).unwrap(),
            "https://s.test/x?q=a%20b%26count%3D9%23%C3%BC&count=5"
        );
        let more = address("https://s.test/?k=v", "a", 1).unwrap();
        assert_eq!(more, "https://s.test/?k=v&q=a&count=1");
    }

    #[test]
    fn a_question_that_no_address_holds_is_told_without_the_address() {
        let why = address("https://s.test/x", &"é".repeat(2_000), 5).unwrap_err();
        assert!(matches!(&why, ToolError::InvalidArgs(why) if !why.contains("s.test")), "{why:?}");
    }

    #[test]
    fn the_usual_forms_of_an_answer_are_read() {
        let one = json!({"title": "T", "url": "https://a.test/", "content": "C", "more": 1});
        let expected = [Hit {
            title: "T".to_owned(),
            url: "https://a.test/".to_owned(),
            description: "C".to_owned(),
        }];
        for answer in [json!([one]), json!({"results": [one]}), json!({"web": {"results": [one]}})]
        {
            assert_eq!(hits(&answer, 5).unwrap(), expected, "{answer}");
        }
        assert_eq!(hits(&json!([one, one, {"url": 3}]), 1).unwrap().len(), 1);
        assert!(hits(&json!({"error": "no"}), 5).is_err());
    }
}
