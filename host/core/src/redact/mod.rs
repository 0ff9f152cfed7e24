//! Taking known secrets out of everything that leaves the host: replies, errors, records, logs.
//!
//! A value is found as it is, in base64 (both alphabets, at each of its three alignments, so
//! also inside `user:password`) and in hexadecimal, all of that also as UTF-16, the value itself also as UTF-32,
//! and each of these behind up to `REDACT_ROUNDS_MAX` layers of percent-encoding, of JSON, Rust, C, Python or shell escapes and of HTML
//! entities, all of it in any case of ASCII letters; an apostrophe in the value also as shells quote it, and its
//! line breaks as LF and as CR LF. All spellings are searched at once, in time
//! linear in the text; what a reader may see in a text is in `reading`.
//!
//! Values shorter than `REDACT_VALUE_BYTES` are found only as they are and as a whole word, and
//! those shorter than `REDACT_WORD_BYTES` never: a one-letter secret is in every text.
//!
//! Deliberately absent: guessing at what looks like a secret (that is `screen`), spellings that
//! change the value (compressed, reversed, wrapped into lines), and pieces of one value spread
//! over several JSON strings. Text blocks that follow each other are read as one text.

mod apply;
mod layers;
mod reading;
mod redactor;
mod spellings;
#[cfg(test)]
mod tests;

pub use self::apply::{gather, gather_text};
pub(crate) use self::reading::read;
pub use self::redactor::{Redactor, TooMuch};
