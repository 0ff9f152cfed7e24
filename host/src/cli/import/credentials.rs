//! What of a client's configuration is a credential, by its name or by its looks.
//!
//! What stands in a command line cannot be named there. Such a program is started by a shell, which
//! puts the values where they stood. Deliberately absent: certainty. A password under a name that says
//! nothing stays where it is.

use std::path::Path;

use clawhost_core::digest;
use clawhost_core::grants::{is_secret_name, is_variable_name};
use clawhost_core::screen::is_credential;
use serde_json::{Map, Value, json};
use url::Url;

use super::made::{Made, safe};

/// Words of a name whose value is a secret, whatever it looks like.
const SECRET_WORDS: [&str; 17] = [
    "APIKEY", "AUTH", "AUTHORIZATION", "BEARER", "COOKIE", "CREDENTIAL", "CREDENTIALS", "DSN",
    "KEY", "PASS", "PASSPHRASE", "PASSWD", "PASSWORD", "PAT", "PWD", "SECRET", "TOKEN",
];
/// Ends of such words where several are written as one.
const SECRET_ENDS: [&str; 5] = ["APIKEY", "PASSWD", "PASSWORD", "SECRET", "TOKEN"];
/// The shell that puts values into a command line; every system has it, and so has every jail.
const SHELL: &str = "/bin/sh";

/// Says whether `text`, which stands under the name `key`, is a secret.
pub(super) fn is_secret(key: &str, text: &str) -> bool {
    let is_empty = text.is_empty() || text == "true" || text == "false";
    let is_path = Path::new(text).is_absolute() && Path::new(text).exists();
    !is_empty
        && (text.starts_with("${")
            || (names_secret(key) && !is_path)
            || has_password(text)
            || is_credential(key, text))
}

/// Says whether an address holds a password, however short.
fn has_password(text: &str) -> bool {
    text.contains("://") && Url::parse(text).is_ok_and(|url| url.password().is_some())
}

fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| {
        SECRET_WORDS.contains(&word) || SECRET_ENDS.iter().any(|end| word.ends_with(end))
    })
}

/// One argument: what is written, and the name of the secret behind that.
#[derive(Debug, PartialEq, Eq)]
struct Argument {
    plain: String,
    secret: Option<String>,
}

/// Takes the secrets out of a command line.
fn arguments(server: &str, given: &[&str]) -> Vec<Argument> {
    let mut taken: Vec<Argument> = Vec::new();
    for (at, text) in given.iter().enumerate() {
        let named = at.checked_sub(1).and_then(|before| given.get(before).copied());
        let named = named.filter(|flag| flag.starts_with('-') && !flag.contains('='));
        let halves = ["=", ": "].iter().find_map(|mark| {
            let (name, value) = text.split_once(mark)?;
            is_secret(name, value).then_some((name, text.len() - value.len()))
        });
        let (name, border) = match (named, halves) {
            (_, Some((name, border))) => (name.to_owned(), border),
            (Some(flag), None) if names_secret(flag) && is_secret(flag, text) => {
                (flag.to_owned(), 0)
            }
            _ if is_secret("", text) => (format!("argument-{}", at + 1), 0),
            _ => {
                taken.push(Argument { plain: (*text).to_owned(), secret: None });
                continue;
            }
        };
        let plain = text.get(..border).unwrap_or_default().to_owned();
        taken.push(Argument { plain, secret: Some(format!("{server}-{}", safe(&name))) });
    }
    taken
}

impl Made {
    /// Returns `command` and `args` as they are started, without secrets: these are added to
    /// `secrets`.
    pub(super) fn command_line(
        &mut self,
        server: &str,
        command: &str,
        given: &[&str],
        secrets: &mut Vec<Value>,
    ) -> (String, Vec<String>) {
        let arguments = arguments(server, given);
        if arguments.iter().all(|argument| argument.secret.is_none()) {
            return (command.to_owned(), given.iter().map(|&text| text.to_owned()).collect());
        }
        let mut script = "exec \"$0\"".to_owned();
        for (at, argument) in arguments.iter().enumerate() {
            let at = at + 1;
            let Some(secret) = &argument.secret else {
                script.push_str(&format!(" \"${{{at}}}\""));
                continue;
            };
            script.push_str(&format!(" \"${{{at}}}${{CLAW_ARGUMENT_{at}}}\""));
            secrets.push(json!({"name": secret, "env": format!("CLAW_ARGUMENT_{at}")}));
            self.set(secret, "");
        }
        let first = ["-c".to_owned(), script, command.to_owned()];
        let rest = arguments.into_iter().map(|argument| argument.plain);
        (SHELL.to_owned(), first.into_iter().chain(rest).collect())
    }

    /// Returns what is no secret of a mapping; the secrets go where they belong, by name.
    pub(super) fn values(
        &mut self,
        server: &str,
        given: Option<&Value>,
        place: &str,
        secrets: &mut Vec<Value>,
    ) -> Map<String, Value> {
        let mut plain = Map::new();
        for (key, value) in given.and_then(Value::as_object).into_iter().flatten() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if !is_secret(key, &text) {
                plain.insert(key.clone(), json!(text));
                continue;
            }
            let name = self.named(server, key, &text);
            self.set(&name, if place == "header" { "all of the header's value" } else { "" });
            secrets.push(json!({"name": name, place: key}));
        }
        plain
    }

    /// Returns a URL without what is secret in it. A user and a password become a header.
    pub(super) fn url(&mut self, server: &str, text: &str, secrets: &mut Vec<Value>) -> String {
        let Ok(mut url) = Url::parse(text) else { return text.to_owned() };
        if !url.username().is_empty() || url.password().is_some() {
            let name = format!("{server}-authorization");
            self.set(&name, "`Basic` and the base64 of `user:password`, which stood in the URL");
            secrets.push(json!({"name": name, "header": "Authorization"}));
            // Neither can fail for a URL that had them.
            let _ = url.set_username("");
            let _ = url.set_password(None);
        }
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let (secret, plain): (Vec<_>, Vec<_>) =
            pairs.into_iter().partition(|(name, value)| is_secret(name, value));
        if secret.is_empty() {
            return url.into();
        }
        url.set_query(None);
        if !plain.is_empty() {
            url.query_pairs_mut().extend_pairs(plain);
        }
        for (name, _) in secret {
            self.todo.push(format!("`{server}`: `{name}` of its URL looks like a credential and was left out: give it as a header under `secrets`, if the server takes it so"));
        }
        url.into()
    }

    /// Returns the name of the secret under `key`. Two servers may mean different ones by one word.
    fn named(&mut self, server: &str, key: &str, value: &str) -> String {
        let is_name = is_secret_name(key) && is_variable_name(key);
        let digest = digest::of_bytes(value.as_bytes());
        let is_other = self.digests.get(key).is_some_and(|other| *other != digest);
        if !is_name || is_other {
            return format!("{server}-{}", safe(key));
        }
        self.digests.insert(key.to_owned(), digest);
        key.to_owned()
    }

    /// Asks for the value of a secret.
    fn set(&mut self, name: &str, which: &str) {
        let which = if which.is_empty() { String::new() } else { format!(" ({which})") };
        self.todo.push(format!("run: clawhost secrets set {name}{which}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusual_names_of_secrets_are_known_and_others_are_left() {
        for name in
            ["OPENAI_KEY", "DB_PASS", "Cookie", "x-api-key", "accessToken", "PGPASSWORD", "--pat"]
        {
            assert!(is_secret(name, "hunter2"), "{name}");
        }
        for (name, text) in [
            ("KEYBOARD", "us"),
            ("MAX_TOKENS", "100"),
            ("AUTH", "false"),
            ("TOKEN_DIR", "/usr"),
            ("LOG_LEVEL", "debug"),
            ("TOKEN", ""),
        ] {
            assert!(!is_secret(name, text), "{name}");
        }
    }

    #[test]
    fn secrets_of_a_command_line_are_put_in_by_a_shell_in_their_place() {
        let mut made = Made::default();
        let given = [
            "a b", "--token=hunter2", "--api-key", "hunter2", "--header", "Cookie: hunter2", "-v",
            "postgresql://u:hunter2@db/x", "--keep", "it",
        ];
        let mut secrets = Vec::new();
        let (command, args) = made.command_line("s", "/bin/echo", &given, &mut secrets);
        assert!(!format!("{args:?}{made:?}{secrets:?}").contains("hunter2"), "{args:?}");
        let names: Vec<_> = secrets.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["s-token", "s-api-key", "s-cookie", "s-argument-8"]);
        let env = secrets.iter().map(|one| (one["env"].as_str().unwrap(), "X"));
        #[expect(clippy::disallowed_methods, reason = "the test runs what was written")]
        let said = std::process::Command::new(command).args(args).envs(env).output().unwrap();
        assert_eq!(
            String::from_utf8(said.stdout).unwrap(),
            "a b --token=X --api-key X --header Cookie: X -v X --keep it\n"
        );
    }

    #[test]
    fn a_url_keeps_no_password_and_no_token() {
        let mut made = Made::default();
        let mut secrets = Vec::new();
        let text = "https://u:hunter2@x.example/mcp?team=a&api_key=hunter2";
        assert_eq!(made.url("s", text, &mut secrets), "https://x.example/mcp?team=a");
        assert_eq!(secrets, [json!({"name": "s-authorization", "header": "Authorization"})]);
        assert!(made.todo.len() == 2 && !format!("{made:?}").contains("hunter2"), "{made:?}");
    }
}
