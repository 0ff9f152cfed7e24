//! The secrets of one call: values in the guest's environment, or placeholders that become
//! values at the host's boundary.
//!
//! A placeholder is random, made for one call, and means nothing to anybody but this call's
//! [`CallSecrets`]. It becomes the value in header values (also inside Basic credentials) and in
//! the path and query of a request that passed every check, to a host the secret is bound to.
//! A header for any other host is left out; a URL keeps the placeholder.
//!
//! What a bound host echoes is masked in its answer's headers and body, as it is and in the
//! spellings that `core::redact` knows, before the guest reads it. Such an answer is asked for
//! uncompressed, and one that is compressed all the same is refused.
//!
//! Deliberately absent: values in request bodies, which stream past (a placeholder there stays
//! one).

mod fill;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::grants::{Injection, SecretGrant};
use clawhost_core::redact::Redactor;

use super::bindings::claw::host::secrets;
use super::state::CallState;
use crate::random;
use crate::secrets::{Secret, SecretError, Secrets};

/// What every placeholder starts with.
const PLACEHOLDER: &str = "clawsecret-";
/// Random bytes of a placeholder.
const PLACEHOLDER_BYTES: usize = 16;

/// What one call may use, and what it has of it.
#[derive(Debug)]
pub(super) struct CallSecrets {
    secrets: Secrets,
    held: Vec<Held>,
    sent: Mutex<Sent>,
}

#[derive(Debug)]
struct Held {
    grant: SecretGrant,
    text: Text,
}

/// What the guest has.
#[derive(Debug)]
enum Text {
    Placeholder(String),
    Value(Secret),
}

/// The values that requests of this call carried, and what finds them in answers.
#[derive(Debug, Default)]
struct Sent {
    values: Vec<(String, Secret)>,
    redactor: Arc<Redactor>,
}

impl CallSecrets {
    /// Makes the placeholders of one call, and looks up what its guest gets as it is.
    ///
    /// # Errors
    /// A secret that the guest itself would get cannot be had: the call cannot run.
    pub(super) fn open(grants: &[SecretGrant], secrets: &Secrets) -> Result<Self, CallError> {
        let hold = |grant: &SecretGrant| {
            let text = match grant.injection {
                Injection::HostBoundary => {
                    Text::Placeholder(PLACEHOLDER.to_owned() + &random::hex::<PLACEHOLDER_BYTES>()?)
                }
                Injection::Environment => {
                    Text::Value(secrets.resolve(&grant.name).map_err(|e| missing(&e))?)
                }
                Injection::FileMount => {
                    let reason =
                        "the profile wants secrets as files, which this host does not serve";
                    return Err(CallError::new(ErrorKind::Sandbox, reason));
                }
            };
            Ok(Held { grant: grant.clone(), text })
        };
        let held = grants.iter().map(hold).collect::<Result<_, _>>()?;
        Ok(Self { secrets: secrets.clone(), held, sent: Mutex::default() })
    }

    /// Returns the variables of the guest's environment.
    pub(super) fn env(&self) -> impl Iterator<Item = (&str, &str)> {
        self.held.iter().map(|held| (held.grant.env.as_str(), held.text.as_str()))
    }

    /// Returns the variables of a native process's environment: values only, since nothing would
    /// turn a placeholder into one.
    pub(super) fn process_env(&self) -> impl Iterator<Item = (&str, &str)> {
        let values = self.held.iter().filter(|held| matches!(held.text, Text::Value(_)));
        values.map(|held| (held.grant.env.as_str(), held.text.as_str()))
    }

    /// Returns what finds the values that this call has sent so far; none where it sent none.
    pub(super) fn mask(&self) -> Option<Arc<Redactor>> {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        (!sent.redactor.is_empty()).then(|| Arc::clone(&sent.redactor))
    }
}

impl Text {
    fn as_str(&self) -> &str {
        match self {
            Self::Placeholder(placeholder) => placeholder,
            Self::Value(secret) => secret.expose(),
        }
    }
}

impl secrets::Host for CallState {
    async fn get(&mut self, name: String) -> Option<String> {
        let held = self.secrets.held.iter().find(|held| held.grant.name == name)?;
        Some(held.text.as_str().to_owned())
    }
}

fn missing(error: &SecretError) -> CallError {
    let text = "a secret that the tool needs cannot be had";
    let name = match error {
        SecretError::Io { name, .. }
        | SecretError::Missing(name)
        | SecretError::Store { name, .. }
        | SecretError::TooMany(name)
        | SecretError::Unusable { name, .. } => name.clone(),
    };
    CallError::new(ErrorKind::Sandbox, text)
        .with("stage", "secrets")
        .with("secret", name)
        .with_internal(error.to_string())
}
