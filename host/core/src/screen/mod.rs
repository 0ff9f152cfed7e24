//! Screens: what passes from one side to another is searched, because a policy says so.
//!
//! Three checks: the input's form ([`Validation`]), text that tries to instruct the model that
//! reads it (`injection`), and what nobody should read (`find`): what looks like a credential
//! (`secrets`), data about people and addresses inside of a network (`personal`). One set of
//! patterns serves every [`Boundary`]. All policies of a manifest hold together: each check runs
//! once, with the strictest action that any of them asks for. Every check takes time linear in
//! the text, whatever the text is.
//!
//! Arguments are never changed: a tool gets what the caller sent, or nothing. What is taken out
//! of results and records leaves a token in its place, the same for the same value ([`Tokens`]).
//!
//! Deliberately absent: certainty. Patterns know what is common; text can be written so that
//! they miss it, in other words, other encodings or pieces, and a harmless page can quote what
//! they find. They come on top of the sandbox and the rules, never instead of them. Secrets
//! that the host knows are taken out by `redact`, exactly. Bytes that are no text (pictures,
//! recordings, binary resources) are not searched.

mod encoded;
mod filters;
mod find;
mod fold;
mod found;
mod injection;
mod personal;
mod screens;
mod secrets;
mod terms;
#[cfg(test)]
mod tests;
mod tokens;
mod validation;
mod walk;

pub use self::filters::{
    Boundary, Filter, INTERNAL_ENDPOINTS, PERSONAL_DATA, SECRET_SCANNING, kind_words, kinds_of,
};
pub use self::found::{Finding, Screened};
pub(crate) use self::injection::patterns as injection_patterns;
pub use self::screens::{Screens, instructions, is_credential};
pub(crate) use self::secrets::patterns as secret_patterns;
pub use self::terms::{Action, INPUT_VALIDATION, PROMPT_INJECTION, Scanning, Screen, Validation};
pub use self::tokens::{TOKEN_KEY_BYTES, Tokens};
