//! From the text of a script to its tree.
//!
//! Deliberately absent: `&` (there are no background jobs), aliases, and what only other shells
//! know (`[[ ]]`, arrays, `<( )`).

mod compound;
mod parser;
mod redirect;
mod tree;
mod word;

pub(crate) use parser::{Parser, SyntaxError};
pub(crate) use tree::*;

/// Parses a whole script.
///
/// # Errors
/// Where the text is no script; nothing of it has run then.
pub(crate) fn parse(text: &str) -> Result<List, SyntaxError> {
    Parser::new(text, 0).script()
}

/// Whether `name` can name a variable or function.
pub(crate) fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
        && letters.all(|c| c == '_' || c.is_ascii_alphanumeric())
}
