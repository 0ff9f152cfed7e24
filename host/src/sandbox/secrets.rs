//! The secrets of one call: values in the guest's environment, or placeholders that become
//! values at the host's boundary.
//!
//! A placeholder is random, made for one call, and means nothing to anybody but this call's
//! [`CallSecrets`]. It becomes the value in header values (also inside Basic credentials) and in
//! the path and query of a request that passed every check, to a host the secret is bound to.
//! A header for any other host is left out; a URL keeps the placeholder.
//!
//! A call that has placeholders reads no answer as it came: every value they could stand for is
//! masked in headers and bodies, as it is and in the spellings that `core::redact` knows, whether
//! this call sent it or an earlier one did. Answers are asked for whole and uncompressed, and
//! refused where they are not. A value that is too short to be masked, or too long, is not sent.
//!
//! Deliberately absent: values in request bodies, which stream past (a placeholder there stays
//! one).

mod fill;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::grants::{Injection, SecretGrant};
use clawhost_core::limits::{REDACT_VALUE_BYTES, SECRET_BOUNDARY_BYTES_MAX};
use clawhost_core::redact::Redactor;

use super::bindings::claw::host::secrets;
use super::state::CallState;
use crate::random;
use crate::secrets::{NoSecret, Secret, SecretError, Secrets};

/// What every placeholder starts with.
const PLACEHOLDER: &str = "clawsecret-";
/// Random bytes of a placeholder.
const PLACEHOLDER_BYTES: usize = 16;

/// What one call may use, and what it has of it.
#[derive(Debug)]
pub(super) struct CallSecrets {
    secrets: Secrets,
    held: Vec<HeldSecret>,
    boundary: OnceLock<Boundary>,
}

#[derive(Debug)]
struct HeldSecret {
    grant: SecretGrant,
    text: Text,
}

/// What the guest has.
#[derive(Debug)]
enum Text {
    Placeholder(String),
    Value(Secret),
}

/// The values that placeholders of this call become, the same for its whole time, and what finds
/// them and those that were theirs before in answers.
#[derive(Debug)]
struct Boundary {
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
            Ok(HeldSecret { grant: grant.clone(), text })
        };
        let held = grants.iter().map(hold).collect::<Result<_, _>>()?;
        Ok(Self { secrets: secrets.clone(), held, boundary: OnceLock::new() })
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

    /// Returns what finds every value that a placeholder of this call could become; none where
    /// there is none.
    ///
    /// # Errors
    /// A value may be there and cannot be read: nothing could mask it.
    pub(super) fn mask(&self) -> Result<Option<Arc<Redactor>>, SecretError> {
        let redactor = &self.boundary()?.redactor;
        Ok((!redactor.is_empty()).then(|| Arc::clone(redactor)))
    }

    /// Returns the value to send for the secret `name`.
    fn value(&self, name: &str) -> Result<&Secret, SecretError> {
        let found = self.boundary()?.values.iter().find(|(other, _)| other == name);
        match found {
            Some((_, value)) => Ok(value),
            None => Err(self
                .look_up(name)
                .err()
                .unwrap_or_else(|| SecretError::new(name, NoSecret::Missing(String::new())))),
        }
    }

    /// Looks the values up before the first request, as any answer may hold any of them.
    fn boundary(&self) -> Result<&Boundary, SecretError> {
        if let Some(boundary) = self.boundary.get() {
            return Ok(boundary);
        }
        let found = self.find_boundary()?;
        Ok(self.boundary.get_or_init(|| found))
    }

    fn find_boundary(&self) -> Result<Boundary, SecretError> {
        let (mut values, mut known) = (Vec::new(), Vec::new());
        let at_boundary = |held: &&HeldSecret| matches!(held.text, Text::Placeholder(_));
        for name in self.held.iter().filter(at_boundary).map(|held| &held.grant.name) {
            match self.look_up(name) {
                Ok(value) => values.push((name.clone(), value)),
                // What cannot be sent fails the request that needs it, and no other.
                Err(SecretError { why: NoSecret::Missing(_) | NoSecret::Unusable(_), .. }) => {}
                Err(error) => return Err(error),
            }
            known.extend(self.secrets.known(name).into_iter().map(|value| (name, value)));
        }
        let texts = known.iter().map(|(name, value)| (name.as_str(), value.expose().as_bytes()));
        let redactor = Redactor::new(texts);
        let first = || values.first().map_or("", |(name, _)| name);
        let too_many = |_| SecretError::new(first(), NoSecret::TooMany);
        Ok(Boundary { redactor: Arc::new(redactor.map_err(too_many)?), values })
    }

    /// Looks up a value that can be masked. The guest chooses what stands around it in a request,
    /// so that a short one would be no whole word in the answer.
    fn look_up(&self, name: &str) -> Result<Secret, SecretError> {
        let value = self.secrets.resolve(name)?;
        let reason = match value.expose().len() {
            ..REDACT_VALUE_BYTES => "it is under 8 bytes: too short to be masked in answers",
            REDACT_VALUE_BYTES..=SECRET_BOUNDARY_BYTES_MAX => return Ok(value),
            _ => "it is over 4096 bytes: too long to be masked in answers",
        };
        Err(SecretError::new(name, NoSecret::Unusable(reason)))
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
        self.tape.now(format_args!("secret {name}"), None, || {
            let held = self.secrets.as_ref()?.held.iter().find(|held| held.grant.name == name)?;
            Some(held.text.as_str().to_owned())
        })
    }
}

fn missing(error: &SecretError) -> CallError {
    let text = "a secret that the tool needs cannot be had";
    CallError::new(ErrorKind::Sandbox, text)
        .with("stage", "secrets")
        .with("secret", error.name.as_str())
        .with_internal(error.to_string())
}
