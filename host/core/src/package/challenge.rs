//! What a server wants from somebody who has to say who they are: one `WWW-Authenticate` header.

/// What to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Challenge {
    /// A user name and a password.
    Basic,
    /// A token that `realm` gives.
    Bearer {
        /// The URL that gives tokens.
        realm: String,
        /// Whom the token is for; nothing where the server does not say.
        service: Option<String>,
    },
}

impl Challenge {
    /// Reads the value of the header; nothing where it is neither of the two.
    pub fn read(header: &str) -> Option<Self> {
        if split(header).0.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        Some(Self::Bearer { realm: bearer(header, "realm")?, service: bearer(header, "service") })
    }
}

/// Returns a parameter of the value of the header, where that asks for a bearer token.
pub fn bearer(header: &str, name: &str) -> Option<String> {
    let (scheme, rest) = split(header);
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let parameters = parameters(rest)?;
    let mut named = parameters.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
    named.next().map(|(_, value)| value.clone()).filter(|_| named.next().is_none())
}

fn split(header: &str) -> (&str, &str) {
    let header = header.trim();
    header.split_once(' ').unwrap_or((header, ""))
}

/// Reads `key="value", key=value`; nothing where it is something else.
fn parameters(mut text: &str) -> Option<Vec<(&str, String)>> {
    let mut all = Vec::new();
    while !text.trim().is_empty() {
        let (key, rest) = text.split_once('=')?;
        let (value, rest) = match rest.trim_start().strip_prefix('"') {
            Some(quoted) => quoted_value(quoted)?,
            None => {
                let (value, rest) = rest.split_once(',').unwrap_or((rest, ""));
                (value.trim().to_owned(), rest)
            }
        };
        all.push((key.trim(), value));
        text = rest.trim_start().trim_start_matches(',');
    }
    Some(all)
}

/// Returns the value up to the closing quote, and what follows it.
fn quoted_value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(chars.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_challenges_are_read() {
        let bearer = |realm: &str, service: Option<&str>| {
            let (realm, service) = (realm.to_owned(), service.map(str::to_owned));
            Some(Challenge::Bearer { realm, service })
        };
        for (text, expected) in [
            ("Basic realm=\"x\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            (
                r#"Bearer realm="https://auth.example/token",service="reg, one",scope="repository:a:pull""#,
                bearer("https://auth.example/token", Some("reg, one")),
            ),
            (r#"bearer Realm = "a\"b" , x=y"#, bearer("a\"b", None)),
            ("Bearer realm=https://a.example/t", bearer("https://a.example/t", None)),
            ("Bearer", None),
            ("Bearer service=\"x\"", None),
            (r#"Bearer realm="a",realm="b""#, None),
            (r#"Bearer realm="a"#, None),
            (r#"Bearer realm="a\"#, None),
            ("Negotiate", None),
            ("", None),
        ] {
            assert_eq!(Challenge::read(text), expected, "{text}");
        }
    }
}
