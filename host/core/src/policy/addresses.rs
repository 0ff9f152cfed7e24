//! Which arguments are addresses of the network, for tools that the operator keeps to a few hosts.
//!
//! A text is one that begins with `http:`, `https:` or any scheme and `://`, and each below a name
//! whose last word is `url`, `uri`, `host`, `endpoint` or their like. Names of entries count as
//! texts do. What goes into a message or a file (`body`, `content`, `text`, …) does not.
//!
//! Deliberately absent: addresses inside of sentences, and any look-up. What a tool makes of its
//! arguments is held where it connects.

use serde_json::Value;
use url::Url;

use super::paths::{CONTENT_WORDS, words};
use crate::egress::{EgressDenied, parse_url};
use crate::visible;

/// Last words of the names of arguments that are addresses whatever they look like.
const LAST_WORDS: &str = "domain domains endpoint endpoints host hostname hostnames hosts href \
                          link links site uri uris url urls website";

/// Has `check` look at each address in `arguments`, until it refuses one.
///
/// # Errors
/// What `check` says, and addresses that parsers read differently. An address without a scheme is
/// refused where it would be with either of the web's.
pub fn check_addresses(
    arguments: &Value,
    check: &impl Fn(&Url) -> Result<(), EgressDenied>,
) -> Result<(), EgressDenied> {
    below(arguments, Role::Other, check)
}

/// What the name of an argument makes of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Address,
    Content,
    Other,
}

fn below(
    value: &Value,
    role: Role,
    check: &impl Fn(&Url) -> Result<(), EgressDenied>,
) -> Result<(), EgressDenied> {
    match value {
        Value::String(text) => one(text, role, check),
        Value::Array(items) => items.iter().try_for_each(|item| below(item, role, check)),
        Value::Object(entries) => entries.iter().try_for_each(|(name, value)| {
            one(name, Role::Other, check)?;
            below(value, named(name, role), check)
        }),
        Value::Bool(_) | Value::Null | Value::Number(_) => Ok(()),
    }
}

fn named(name: &str, above: Role) -> Role {
    let last = words(name).pop().unwrap_or_default();
    let is_one_of = |list: &str| list.split_whitespace().any(|word| word == last);
    match above {
        Role::Address => Role::Address,
        _ if is_one_of(LAST_WORDS) => Role::Address,
        _ if is_one_of(CONTENT_WORDS) => Role::Content,
        _ => Role::Other,
    }
}

fn one(
    text: &str,
    role: Role,
    check: &impl Fn(&Url) -> Result<(), EgressDenied>,
) -> Result<(), EgressDenied> {
    // Parsers skip what stands before the scheme, and tabs and line breaks wherever they stand:
    // an address that has some is one, and refused.
    let is_skipped = |c: char| c.is_whitespace() || c.is_control() || visible::is_invisible(c);
    let text = text.trim_start_matches(is_skipped);
    let is_address = has_scheme(text) || is_read_as_address(text);
    let under = |scheme: &str| check(&parse_url(&format!("{scheme}://{text}"))?);
    match (role, is_address) {
        (Role::Address | Role::Other, true) => check(&parse_url(text)?),
        (Role::Address, false) => under("https").or_else(|_| under("http")),
        (Role::Content, _) | (Role::Other, false) => Ok(()),
    }
}

fn has_scheme(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let fits = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    is_web(scheme) || (rest.starts_with("//") && !scheme.is_empty() && scheme.chars().all(fits))
}

/// Schemes whose addresses need no slashes.
const WEB: [&str; 5] = ["ftp", "http", "https", "ws", "wss"];

fn is_web(scheme: &str) -> bool {
    WEB.iter().any(|web| scheme.eq_ignore_ascii_case(web))
}

/// Says whether a text is an address to parsers, which skip tabs and line breaks. A word and a comment in the next line
/// are none, as long as what the comment begins with is not the name of a host, with a dot or a port.
fn is_read_as_address(text: &str) -> bool {
    let text = text.replace(['\t', '\r', '\n'], "");
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    let leads_somewhere = |url: Url| {
        let host = url.host_str().unwrap_or_default();
        url.port().is_some() || host.contains(['.', ':'])
    };
    has_scheme(&text) && (is_web(scheme) || Url::parse(&text).is_ok_and(leads_somewhere))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::egress::Reason;

    /// Says whether everything that is an address leads to `good.test`.
    fn is_fine(arguments: &Value) -> bool {
        let check = |url: &Url| match url.host_str() {
            Some("good.test") if matches!(url.scheme(), "http" | "https") => Ok(()),
            _ => Err(EgressDenied::new(Reason::Host, url.as_str())),
        };
        check_addresses(arguments, &check).is_ok()
    }

    #[test]
    fn addresses_are_found_by_their_form_and_by_their_names() {
        for evil in [
            "https://evil.test/",
            "HTTP://evil.test",
            " \thttps://evil.test",
            "\u{feff}\u{200b}https://evil.test",
            "ht\ttps://evil.test/",
            "https\n://evil.test/",
            "https:\r\n//evil.test/",
            "\u{feff}ht\ttp:/\n/good.test",
            "http:evil.test",
            "https:/evil.test",
            "https:\\\\evil.test",
            "https://good.test@evil.test/",
            "https://good.test\\@evil.test/",
            "ftp://good.test/",
            "ws://good.test/",
            "wss:/evil.test",
            "redis:\t//evil.test/",
            "postgres:/\n/evil.test/db",
            "post\tgres://db:5432/x",
        ] {
            for arguments in [
                json!({"x": evil}),
                json!({"x": [{"y": [evil]}]}),
                json!({"x": {evil: 1}}),
                json!({"body": {"x": evil}}),
            ] {
                assert!(!is_fine(&arguments), "{arguments}");
            }
        }
        for name in ["url", "baseURL", "target_url", "Host", "hosts", "api-endpoint", "domain2"] {
            for evil in ["evil.test", "evil.test:80/x", "good.test.evil.test", "//evil.test", ""] {
                assert!(!is_fine(&json!({name: evil})), "{name}: {evil}");
                assert!(!is_fine(&json!({name: {"x": [evil]}})), "{name}: {evil}");
            }
            for good in
                ["good.test", "good.test:8080/x", "https://good.test/x", "\nhttps://good.test"]
            {
                assert!(is_fine(&json!({name: [good]})), "{name}: {good}");
            }
        }
    }

    #[test]
    fn what_only_mentions_an_address_is_none() {
        for arguments in [
            json!({"body": "ht\ttps://evil.test/"}),
            json!({"query": "two\nlines: one\n// and more"}),
            json!({"old_string": "default:\n// nothing", "x": "public:\t//comment"}),
            json!({"body": "https://evil.test/"}),
            json!({"messageText": ["http://evil.test"]}),
            json!({"query": "see https://evil.test/", "curl": "evil.test", "n": 1, "x": null}),
            json!({"x": "a:b", "y": "C:/evil.test", "z": "://evil.test", "note": "evil.test"}),
        ] {
            assert!(is_fine(&arguments), "{arguments}");
        }
    }
}
