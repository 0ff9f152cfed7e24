//! Screens: what arguments and results are searched for because a policy says so.
//!
//! Three checks: the input's form ([`Validation`]), text that tries to instruct the model that
//! reads it (`injection`), and what looks like a credential (`secrets`). All policies of a
//! manifest hold together: each check runs once, with the strictest action that any of them
//! asks for. Every check takes time linear in the text, whatever the text is.
//!
//! Deliberately absent: certainty. Patterns know what is common; text can be written so that
//! they miss it, in other words, other encodings or pieces, and a harmless page can quote what
//! they find. They come on top of the sandbox and the rules, never instead of them. Secrets
//! that the host knows are taken out by `redact`, exactly. Bytes that are no text (pictures,
//! recordings, binary resources) are not searched.

mod fold;
mod injection;
mod secrets;
mod validation;
mod walk;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

pub(crate) use self::injection::patterns as injection_patterns;
pub(crate) use self::secrets::patterns as secret_patterns;
use self::walk::Look;
use crate::error::{CallError, ErrorKind};
use crate::json;
use crate::limits::SCREEN_FINDINGS_MAX;
use crate::reply::ToolReply;

/// The check of the input's form.
pub const INPUT_VALIDATION: &str = "input-validation";
/// The check for text that instructs the model.
pub const PROMPT_INJECTION: &str = "prompt-injection";
/// The check for credentials.
pub const SECRET_SCANNING: &str = "secret-scanning";

/// What happens with what was found, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// It is recorded.
    Log,
    /// It is recorded, and the operator is told.
    Warn,
    /// It is taken out.
    Redact,
    /// The call, or its result, goes no further.
    Block,
}

/// What one policy has arguments and results searched for. The default is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Screen {
    /// What arguments have to look like.
    pub validation: Validation,
    /// What happens with text that tries to instruct the model, in arguments and in results.
    pub injection: Option<Action>,
    /// Where credentials are looked for, and what happens with them.
    pub secrets: Option<Scanning>,
}

/// What arguments have to look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Validation {
    /// The most bytes they may have, as serialised JSON.
    pub bytes_max: Option<u64>,
    /// Refuse NUL characters, in names and values.
    pub null_bytes: bool,
    /// Report characters that cannot be seen, or look like an ordinary space.
    pub whitespace: bool,
}

/// Where credentials are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scanning {
    /// In arguments.
    pub input: bool,
    /// In results.
    pub output: bool,
    /// What happens with them.
    pub action: Action,
}

/// The screens of all policies together: of each check the strictest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Screens {
    bytes_max: Option<(u64, String)>,
    null_bytes: Option<String>,
    whitespace: Option<Asked>,
    injection: Option<Asked>,
    secrets_in: Option<Asked>,
    secrets_out: Option<Asked>,
}

/// An action, and the policy that asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    action: Action,
    policy: String,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The check that found it.
    pub check: &'static str,
    /// The policy that asked for the check.
    pub policy: String,
    /// What it is, and how often; never the text itself.
    pub what: String,
    /// What happened with it.
    pub action: Action,
}

/// What came through, and what was found in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Screened<T> {
    /// The arguments or the result, without what had to be taken out.
    pub value: T,
    /// Everything that was found, one entry for each kind.
    pub findings: Vec<Finding>,
    /// Why it may go no further, where that is so.
    pub blocked: Option<CallError>,
}

/// Returns what in `text` reads like instructions to a model, by the same table as the screens.
pub fn instructions(text: &str) -> Option<&'static str> {
    let mut first = None;
    injection::find(text, &mut |name| {
        first.get_or_insert(name);
    });
    first
}

/// Says whether `text`, which stands under the name `key`, is or holds what looks like a credential.
pub fn is_credential(key: &str, text: &str) -> bool {
    secrets::redact(Some(key), text).is_some()
}

impl Screens {
    /// Returns what `policies` ask for together.
    pub fn new<'a>(policies: impl Iterator<Item = (&'a str, &'a Screen)>) -> Self {
        let mut all = Self::default();
        for (policy, screen) in policies {
            all.add(policy, screen);
        }
        all
    }

    fn add(&mut self, policy: &str, screen: &Screen) {
        let Validation { bytes_max, null_bytes, whitespace } = screen.validation;
        if let Some(bytes) = bytes_max
            && self.bytes_max.as_ref().is_none_or(|(least, _)| bytes < *least)
        {
            self.bytes_max = Some((bytes, policy.to_owned()));
        }
        if null_bytes {
            self.null_bytes.get_or_insert_with(|| policy.to_owned());
        }
        let scans = |wanted: fn(&Scanning) -> bool| {
            screen.secrets.filter(wanted).map(|scanning| scanning.action)
        };
        strictest(&mut self.whitespace, policy, whitespace.then_some(Action::Warn));
        strictest(&mut self.injection, policy, screen.injection);
        strictest(&mut self.secrets_in, policy, scans(|scanning| scanning.input));
        strictest(&mut self.secrets_out, policy, scans(|scanning| scanning.output));
    }

    /// Says whether there is nothing to do.
    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }

    /// Searches the arguments of a call.
    pub fn input<'a>(&self, arguments: &'a Value) -> Screened<Cow<'a, Value>> {
        let mut screened = Screened::clean(Cow::Borrowed(arguments));
        if self.is_off() {
            return screened;
        }
        self.validate(arguments, &mut screened);
        let texts = |look: &mut Look<'_>| walk::value(arguments, look);
        self.search_injection(&mut screened, texts);
        if search_secrets(&mut screened, self.secrets_in.as_ref(), texts) {
            json::rewrite(screened.value.to_mut(), false, &mut secrets::redact);
        }
        screened
    }

    /// Searches the result of a call.
    pub fn output(&self, mut reply: ToolReply) -> Screened<ToolReply> {
        let mut screened = Screened::clean(());
        let mut texts = |look: &mut Look<'_>| {
            walk::reply(&mut reply, &mut |key, text| {
                look(key, text);
                None
            });
        };
        self.search_injection(&mut screened, &mut texts);
        if search_secrets(&mut screened, self.secrets_out.as_ref(), &mut texts) {
            walk::reply(&mut reply, &mut secrets::redact);
        }
        let Screened { findings, blocked, .. } = screened;
        Screened { value: reply, findings, blocked }
    }

    fn search_injection<T>(&self, screened: &mut Screened<T>, texts: impl FnOnce(&mut Look<'_>)) {
        let Some(asked) = &self.injection else { return };
        let found = count(|seen| {
            texts(&mut |_, text| injection::find(text, &mut |name| seen.see(name)));
        });
        screened.note(PROMPT_INJECTION, asked, found);
    }

    fn validate<T>(&self, arguments: &Value, screened: &mut Screened<T>) {
        if let Some((bytes_max, policy)) = &self.bytes_max {
            let bytes = validation::bytes(arguments);
            if bytes > *bytes_max {
                let what = format!("{bytes} bytes, where {bytes_max} are taken");
                screened.refuse(policy, &what, "max_size_bytes");
            }
        }
        if let Some(policy) = &self.null_bytes
            && walk::any(arguments, |text| text.contains('\0'))
        {
            screened.refuse(policy, "a NUL character", "null_byte_detection");
        }
        if let Some(asked) = &self.whitespace {
            let found = count(|seen| {
                walk::value(arguments, &mut |_, text| {
                    validation::unusual(text, &mut |name| seen.see(name))
                })
            });
            screened.note(INPUT_VALIDATION, asked, found);
        }
    }
}

/// Searches `texts` as `asked`, and says whether something is to be taken out of them.
fn search_secrets<T>(
    screened: &mut Screened<T>,
    asked: Option<&Asked>,
    texts: impl FnOnce(&mut Look<'_>),
) -> bool {
    let Some(asked) = asked else { return false };
    let found = count(|seen| texts(&mut |key, text| secrets::see(key, text, seen)));
    let is_redacted = asked.action == Action::Redact && !found.0.is_empty();
    screened.note(SECRET_SCANNING, asked, found);
    is_redacted
}

/// Keeps the strictest of the actions, and the first policy that asks for it.
fn strictest(kept: &mut Option<Asked>, policy: &str, action: Option<Action>) {
    if let Some(action) = action
        && kept.as_ref().is_none_or(|kept| action > kept.action)
    {
        *kept = Some(Asked { action, policy: policy.to_owned() });
    }
}

/// Counts what `search` sees, by its name.
fn count(search: impl FnOnce(&mut Counts)) -> Counts {
    let mut counts = Counts::default();
    search(&mut counts);
    counts
}

/// How often what was found, up to [`SCREEN_FINDINGS_MAX`].
#[derive(Debug, Default)]
struct Counts(BTreeMap<&'static str, usize>);

impl Counts {
    fn see(&mut self, name: &'static str) {
        let times = self.0.entry(name).or_default();
        *times = SCREEN_FINDINGS_MAX.min(*times + 1);
    }

    /// Says whether one more makes no difference.
    fn is_full(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|times| *times >= SCREEN_FINDINGS_MAX)
    }
}

impl<T> Screened<T> {
    const fn clean(value: T) -> Self {
        Self { value, findings: Vec::new(), blocked: None }
    }

    fn note(&mut self, check: &'static str, asked: &Asked, found: Counts) {
        let Asked { action, policy } = asked;
        for (name, times) in found.0 {
            let what = match times {
                1 => name.to_owned(),
                SCREEN_FINDINGS_MAX => format!("{name} ({times} times or more)"),
                _ => format!("{name} ({times} times)"),
            };
            if *action == Action::Block && self.blocked.is_none() {
                let reason = format!("{check}, by policy `{policy}`: {what}");
                self.blocked = Some(refusal(ErrorKind::Policy, reason, check, policy));
            }
            self.findings.push(Finding { check, policy: policy.clone(), what, action: *action });
        }
    }

    fn refuse(&mut self, policy: &str, what: &str, limit: &str) {
        let reason = format!("the arguments have {what}, by policy `{policy}`");
        let error = refusal(ErrorKind::InvalidArguments, reason, INPUT_VALIDATION, policy);
        self.blocked.get_or_insert_with(|| error.with("limit", limit));
        self.findings.push(Finding {
            check: INPUT_VALIDATION,
            policy: policy.to_owned(),
            what: what.to_owned(),
            action: Action::Block,
        });
    }
}

fn refusal(kind: ErrorKind, reason: String, check: &str, policy: &str) -> CallError {
    CallError::new(kind, reason).with("stage", "screen").with("check", check).with("policy", policy)
}

#[cfg(test)]
mod tests;
