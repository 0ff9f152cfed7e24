//! `clawhost secrets`: what is in the store, what comes in, what goes out. Values only come in.

use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::path::Path;

use clawhost_core::error::exit;
use clawhost_core::grants::is_secret_name;
use clawhost_core::limits::{REDACT_VALUE_BYTES, SECRET_BYTES_MAX};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::args::{SecretsArgs, SecretsVerb};
use super::fail::Fail;
use super::{setup, show};
use crate::state::{FolderEnv, SecretStore, SecretStoreError, StateDir};

/// Bytes of a line break behind the value, and one that shows that it is too long.
const REST_BYTES: usize = 3;
/// What a name looks like.
const NAME_HINT: &str =
    "use letters, digits, `_`, `-` and `.`, the first a letter, a digit or `_`: API_TOKEN";

pub(super) fn run(args: &SecretsArgs) -> Result<u8, Fail> {
    let folder = setup::state_path(args.state.as_deref())?;
    match &args.verb {
        SecretsVerb::List => list(&folder, args.json),
        SecretsVerb::Remove { name } => remove(&folder, name),
        SecretsVerb::Set { name } => set(&folder, name),
    }
}

fn list(folder: &Path, as_json: bool) -> Result<u8, Fail> {
    let names = match existing(folder)? {
        Some(store) => store.names().map_err(fail)?,
        None => Vec::new(),
    };
    if as_json {
        show::json(&Value::from_iter(names.iter().map(|name| json!({"name": name}))));
    } else {
        names.iter().for_each(|name| show::line(name));
    }
    Ok(exit::OK)
}

fn remove(folder: &Path, name: &str) -> Result<u8, Fail> {
    let removed = match existing(folder)? {
        Some(store) => store.remove(name).map_err(fail)?,
        None => false,
    };
    if !removed {
        let reason = format!("the store has no secret {name:?}");
        return Err(Fail::usage(reason, "`clawhost secrets list` prints the names"));
    }
    Ok(exit::OK)
}

fn set(folder: &Path, name: &str) -> Result<u8, Fail> {
    if !is_secret_name(name) {
        return Err(Fail::usage(format!("{name:?} is no name of a secret"), NAME_HINT));
    }
    let value = check(&read(name)?)?;
    if value.len() < REDACT_VALUE_BYTES {
        eprintln!(
            "note: with under {REDACT_VALUE_BYTES} bytes this value cannot be told from other text, so it is not kept out of replies and logs reliably"
        );
    }
    store(folder)?.set(name, value).map_err(fail)?;
    Ok(exit::OK)
}

/// Opens the store where the folder is there already.
fn existing(folder: &Path) -> Result<Option<SecretStore>, Fail> {
    if folder.exists() { store(folder).map(Some) } else { Ok(None) }
}

fn store(folder: &Path) -> Result<SecretStore, Fail> {
    let state = StateDir::open(Some(folder), &FolderEnv::default());
    let state = state.map_err(|error| Fail::new(exit::UPSTREAM, error))?;
    Ok(SecretStore::new(&state))
}

fn fail(error: SecretStoreError) -> Fail {
    Fail::new(exit::UPSTREAM, error)
}

/// Reads the value: typed unseen at a terminal, else all of standard input. Never an argument,
/// which every program of the machine could read.
fn read(name: &str) -> Result<Zeroizing<Vec<u8>>, Fail> {
    let mut value = Zeroizing::new(Vec::with_capacity(SECRET_BYTES_MAX + REST_BYTES));
    let input = std::io::stdin();
    let limit = (SECRET_BYTES_MAX + REST_BYTES) as u64;
    let done = if input.is_terminal() {
        eprint!("value of {name} (not shown): ");
        let unseen = terminal::Unseen::start()
            .map_err(|reason| Fail::usage(reason, "give the value on standard input"))?;
        let done = input.lock().take(limit).read_until(b'\n', &mut value);
        drop(unseen);
        eprintln!();
        done
    } else {
        input.lock().take(limit).read_to_end(&mut value)
    };
    done.map_err(|error| Fail::new(exit::UPSTREAM, format!("standard input: {error}")))?;
    Ok(value)
}

/// Returns the value without the line break behind it, if it can be a secret.
fn check(bytes: &[u8]) -> Result<Zeroizing<String>, Fail> {
    let wrong = |reason: &str| Fail::usage(reason, "give the value on standard input");
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("the value is not UTF-8"))?;
    let text = text.strip_suffix('\n').map_or(text, |rest| rest.strip_suffix('\r').unwrap_or(rest));
    match text {
        "" => Err(wrong("the value is empty")),
        text if text.len() > SECRET_BYTES_MAX => {
            Err(wrong(&format!("the value is longer than {SECRET_BYTES_MAX} bytes")))
        }
        text if text.contains('\0') => Err(wrong("the value has a zero byte")),
        text => Ok(Zeroizing::new(text.to_owned())),
    }
}

#[cfg(unix)]
mod terminal {
    use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

    /// As long as it lives, the terminal does not show what is typed.
    pub(super) struct Unseen(Termios);

    impl Unseen {
        pub(super) fn start() -> Result<Self, String> {
            let before = tcgetattr(std::io::stdin()).map_err(|error| error.to_string())?;
            let mut unseen = before.clone();
            unseen.local_modes.remove(LocalModes::ECHO);
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
}

#[cfg(not(unix))]
mod terminal {
    /// Nothing here can hide what is typed.
    pub(super) struct Unseen;

    impl Unseen {
        pub(super) fn start() -> Result<Self, String> {
            Err("a value cannot be typed unseen here".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_break_is_taken_off_and_what_can_be_no_secret_is_refused() {
        let read = |bytes: &[u8]| check(bytes).ok();
        let value = |text: &str| Some(Zeroizing::new(text.to_owned()));
        assert_eq!(read(b"abc\r\n"), value("abc"));
        assert_eq!(read(b"a b\n\n"), value("a b\n"));
        let long = vec![b'x'; SECRET_BYTES_MAX + 1];
        for bytes in [b"".as_slice(), b"\n", b"a\0b", &[0xff], &long] {
            assert_eq!(read(bytes), None);
        }
    }
}
