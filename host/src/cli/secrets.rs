//! `clawhost secrets`: what is in the store, what comes in, what goes out. Values only come in.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::Path;

use clap::{Args, Subcommand};
use clawhost_core::error::exit;
use clawhost_core::grants::{LOGIN_PREFIX, is_secret_name};
use clawhost_core::limits::{REDACT_VALUE_BYTES, SECRET_BYTES_MAX, SECRET_NAME_BYTES_MAX};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::args::StateArgs;
use super::fail::{Blame as _, Fail};
use super::run::stop_signal;
use super::{login, setup, show};
use crate::secrets::Secret;
use crate::state::{PrivateFileError, SecretStore};

/// Bytes of a line break behind the value, and one that shows that it is too long.
const REST_BYTES: usize = 3;
/// The key that ends an input: control and D.
const END: u8 = 4;
/// The keys that take back what was typed before: one character, and all of it (control and U).
const BACK: [u8; 2] = [8, 127];
const ALL_BACK: u8 = 21;
/// The same of one word: control and W.
const WORD_BACK: u8 = 23;
/// The keys with which a person stops a program: control and C, Z or `\`.
const STOPS: [u8; 3] = [3, 26, 28];

/// Keep the secrets that tools and providers need
///
/// The store is a file in the state folder that only its owner can read. A secret that is not in
/// it is looked for in the environment, then in the folder that CLAW_SECRETS_DIR names. No verb
/// prints a value.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  clawhost secrets set API_TOKEN < token.txt\n  clawhost secrets list\n  clawhost secrets remove API_TOKEN"
)]
pub(super) struct SecretsArgs {
    #[command(subcommand)]
    pub(super) verb: SecretsVerb,
    #[command(flatten)]
    pub(super) common: StateArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum SecretsVerb {
    /// Print the names of the secrets in the store
    #[command(after_help = "Example: clawhost secrets list --json")]
    List,
    /// Log in to an MCP server, and keep its tokens
    ///
    /// Prints a URL of the issuer that `auth` of the server names, and waits until a browser on this
    /// machine brings the answer, or until the address is pasted at which a browser elsewhere ended. The
    /// tokens are the secret `oauth.SERVER`; removing that logs out.
    #[command(after_help = "Example: clawhost secrets login github")]
    Login {
        /// The server's name in the runtime file
        #[arg(value_name = "SERVER")]
        server: String,
        /// Read the answer from standard input: the browser is on another machine
        #[arg(long)]
        paste: bool,
    },
    /// Forget a secret
    #[command(after_help = "Example: clawhost secrets remove API_TOKEN")]
    Remove {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Keep a secret, in the place of one of that name
    ///
    /// The value is typed unseen, or is all of standard input but one line break at its end. A
    /// host that runs uses it from now on.
    #[command(after_help = "Example: clawhost secrets set API_TOKEN < token.txt")]
    Set {
        /// Its name: letters, digits, `_`, `-` and `.`
        #[arg(value_name = "NAME")]
        name: String,
        /// Say what would be done, and do nothing; no value is read
        #[arg(long)]
        dry_run: bool,
    },
}

pub(super) fn run(args: &SecretsArgs) -> Result<u8, Fail> {
    // To keep a secret may be the first that is done in a state folder.
    if matches!(args.verb, SecretsVerb::List | SecretsVerb::Remove { .. }) {
        setup::require_state(&args.common)?;
    }
    let folder = setup::state_path(&args.common)?.0;
    match &args.verb {
        SecretsVerb::Login { server, paste } => {
            setup::block_on(login::run(&args.common, server, *paste))
        }
        SecretsVerb::List => list(&folder, args.common.json),
        SecretsVerb::Remove { name, dry_run: true } => {
            let would = if is_kept(&folder, name)? { "would be removed" } else { "is not there" };
            told(args, would, name)
        }
        SecretsVerb::Remove { name, .. } => {
            remove(&folder, name)?;
            done(args, "removed", name)
        }
        SecretsVerb::Set { name, dry_run: true } => {
            check(name)?;
            let would = if is_kept(&folder, name)? { "would be replaced" } else { "would be new" };
            told(args, would, name)
        }
        SecretsVerb::Set { name, .. } => {
            set(&folder, name)?;
            done(args, "set", name)
        }
    }
}

fn done(args: &SecretsArgs, what: &str, name: &str) -> Result<u8, Fail> {
    if args.common.json {
        show::json(&json!({ what: name }));
    }
    Ok(exit::OK)
}

/// Says what would become of a secret.
fn told(args: &SecretsArgs, would: &str, name: &str) -> Result<u8, Fail> {
    show::done(args.common.json, || json!({ would: name }), || format!("{name} {would}"))
}

fn is_kept(folder: &Path, name: &str) -> Result<bool, Fail> {
    let names = existing(folder)?.map(|store| store.names()).transpose();
    Ok(names.map_err(|error| fail(&error))?.is_some_and(|names| names.iter().any(|it| it == name)))
}

fn check(name: &str) -> Result<(), Fail> {
    if is_secret_name(name) {
        return Ok(());
    }
    let hint = match name.starts_with(LOGIN_PREFIX) {
        true => {
            format!("`{LOGIN_PREFIX}` begins the names of logins: `clawhost secrets login SERVER`")
        }
        false => format!(
            "use at most {SECRET_NAME_BYTES_MAX} letters, digits, `_`, `-` and `.`, the first a letter, a digit or `_`: API_TOKEN"
        ),
    };
    Err(Fail::usage(format!("{name:?} is no name of a secret"), &hint))
}

fn list(folder: &Path, as_json: bool) -> Result<u8, Fail> {
    let names = match existing(folder)? {
        Some(store) => store.names().map_err(|error| fail(&error))?,
        None => Vec::new(),
    };
    if as_json {
        show::json(&Value::from_iter(names.iter().map(|name| json!({"name": name}))));
    } else {
        names.iter().for_each(|name| show::line(name));
        if names.is_empty() {
            // Standard output is the names' alone.
            eprintln!("no secret is kept: `clawhost secrets set NAME` keeps one");
        }
    }
    Ok(exit::OK)
}

fn remove(folder: &Path, name: &str) -> Result<(), Fail> {
    let removed = match existing(folder)? {
        Some(store) => store.remove(name).map_err(|error| fail(&error))?,
        None => false,
    };
    if !removed {
        let reason = format!("the store has no secret {name:?}");
        return Err(Fail::usage(reason, "`clawhost secrets list` prints the names"));
    }
    Ok(())
}

fn set(folder: &Path, name: &str) -> Result<(), Fail> {
    check(name)?;
    let value = Secret::parse(&read(name)?).map_err(|reason| {
        let hint = format!("give a text of at most {SECRET_BYTES_MAX} bytes on standard input");
        Fail::usage(format!("the value can be no secret: {reason}"), &hint)
    })?;
    let value = Zeroizing::new(value.expose().to_owned());
    if value.len() < REDACT_VALUE_BYTES {
        eprintln!(
            "note: with under {REDACT_VALUE_BYTES} bytes this value cannot be told from other text, so it is not kept out of replies and logs reliably"
        );
    }
    store(folder)?.set(name, value).map(drop).map_err(|error| fail(&error))
}

/// Opens the store where the folder is there already.
fn existing(folder: &Path) -> Result<Option<SecretStore>, Fail> {
    if folder.exists() { store(folder).map(Some) } else { Ok(None) }
}

fn store(folder: &Path) -> Result<SecretStore, Fail> {
    setup::state_dir(Some(folder)).map(|state| SecretStore::new(&state))
}

fn fail(error: &PrivateFileError) -> Fail {
    Fail::new(exit::UPSTREAM, format!("the secret store {error}"))
}

/// Reads the value: typed unseen at a terminal, else all of standard input. Never an argument,
/// which every program of the machine could read.
fn read(name: &str) -> Result<Zeroizing<Vec<u8>>, Fail> {
    let input = std::io::stdin();
    if input.is_terminal() {
        return setup::block_on(asked(name));
    }
    let mut value = room();
    let limit = (SECRET_BYTES_MAX + REST_BYTES) as u64;
    let done = input.lock().take(limit).read_to_end(&mut value);
    done.or_fail_at(exit::UPSTREAM, Path::new("standard input"))?;
    Ok(value)
}

/// Returns room for the longest value there may be: one that grows leaves what it held behind.
fn room() -> Zeroizing<Vec<u8>> {
    Zeroizing::new(Vec::with_capacity(SECRET_BYTES_MAX + REST_BYTES))
}

/// Asks the person at the terminal for the value, unseen. A signal to stop is nothing typed: the terminal is given back
/// as it was first.
async fn asked(name: &str) -> Result<Zeroizing<Vec<u8>>, Fail> {
    let stop = stop_signal();
    // First of all: who sees the question may type.
    let unseen = Unseen::start()
        .map_err(|reason| Fail::usage(reason, "give the value on standard input"))?;
    eprint!("value of {name} (not shown): ");
    let typing = tokio::task::spawn_blocking(|| {
        let mut value = room();
        typed(io::stdin().lock().bytes(), &mut value).map(|()| value)
    });
    let done = stop.run_until_cancelled(typing).await;
    drop(unseen);
    eprint!("\n");
    let done = done.unwrap_or_else(|| Ok(Ok(room()))).map_err(io::Error::other).flatten();
    done.or_fail_at(exit::UPSTREAM, Path::new("standard input"))
}

/// Reads what is typed up to the end of the line. Nothing is the value where the person stops, or the terminal
/// goes away; one that is too long ends there, and is told.
fn typed(keys: impl Iterator<Item = io::Result<u8>>, value: &mut Vec<u8>) -> io::Result<()> {
    for key in keys {
        match key? {
            b'\n' | b'\r' | END => return Ok(()),
            key if STOPS.contains(&key) => break,
            key if BACK.contains(&key) => drop_character(value),
            ALL_BACK => value.clear(),
            WORD_BACK => drop_word(value),
            key if key < b' ' && key != b'\t' => {
                value.clear();
                let key = char::from(key + b'@');
                return Err(io::Error::other(format!("control and {key} is no part of a value")));
            }
            key => value.push(key),
        }
        if value.len() > SECRET_BYTES_MAX {
            return Ok(());
        }
    }
    value.clear();
    Ok(())
}

/// Drops the last character, whose bytes but the first one go on with it.
fn drop_character(value: &mut Vec<u8>) {
    let goes_on = |byte: u8| byte & 0b1100_0000 == 0b1000_0000;
    while value.pop().is_some_and(goes_on) {}
}

/// Drops the last word, and the blanks behind it.
fn drop_word(value: &mut Vec<u8>) {
    let is_blank = |byte: &mut u8| byte.is_ascii_whitespace();
    while value.pop_if(is_blank).is_some() {}
    while value.pop_if(|byte| !is_blank(byte)).is_some() {}
}

/// As long as it lives, the terminal does not show what is typed, and heeds none of it: the lines that it keeps end
/// at 4095 bytes, and who stops the program would be left with a terminal that shows nothing.
struct Unseen(Termios);

impl Unseen {
    fn start() -> Result<Self, String> {
        let before = tcgetattr(std::io::stdin()).map_err(|error| error.to_string())?;
        let mut unseen = before.clone();
        unseen.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        // Each byte as it comes.
        unseen.special_codes[SpecialCodeIndex::VMIN] = 1;
        unseen.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &unseen)
            .map_err(|error| error.to_string())?;
        Ok(Self(before))
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        // Nothing is left to do for a terminal that is gone.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_cannot_be_is_told_why() {
        let hint = |name: &str| match check(name) {
            Err(Fail::Other { hint: Some(hint), .. }) => hint,
            other => panic!("{name}: {other:?}"),
        };
        assert!(check("API_TOKEN").is_ok());
        assert!(hint("oauth.tickets").contains("secrets login"));
        assert!(hint(&"a".repeat(SECRET_NAME_BYTES_MAX + 1)).contains("at most 128 letters"));
    }

    fn read(keys: &[u8]) -> Vec<u8> {
        let mut value = Vec::new();
        typed(keys.iter().map(|key| Ok(*key)), &mut value).unwrap();
        value
    }

    #[test]
    fn what_is_typed_is_a_line_with_its_corrections_and_nothing_where_somebody_stops() {
        assert_eq!(read(b"value\nmore"), b"value");
        assert_eq!(read("vaü\u{7f}lux\u{8}e\r".as_bytes()), b"value");
        assert_eq!(read(b"\x7fwrong\x15right\x04"), b"right");
        assert_eq!(read(b"two wrong \x17\tr\n"), b"two \tr");
        let up = b"a\x1b[A\n".iter().map(|key| Ok(*key));
        let mut value = Vec::new();
        assert!(
            typed(up, &mut value).unwrap_err().to_string().contains("control and [")
                && value.is_empty()
        );
        for stopped in [&b"value\x03"[..], b"value\x1a\n", b"value\x1c", b"value"] {
            assert_eq!(read(stopped), b"", "{stopped:?}");
        }
        let long = vec![b'v'; SECRET_BYTES_MAX];
        assert_eq!(read(&[&long[..], b"\n"].concat()), long);
        assert!(read(&[&long[..], b"vv\n"].concat()).len() > SECRET_BYTES_MAX);
    }
}
