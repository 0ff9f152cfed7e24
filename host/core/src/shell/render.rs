//! An admitted command line written anew, from what was understood of it.
//!
//! Every word is quoted, every program is named by its path, and every pattern stands bare: so it
//! does not matter how the shell that runs it would have read the original.

use super::parse::{Joint, Part, Redirect, Simple, Target, Word};

/// Returns the text of `command`, in which `program` (quoted where it has to be) takes the place
/// of its first word and `quote` is done to all others.
pub(super) fn command(command: &Simple, program: &str, quote: fn(&str) -> String) -> String {
    let mut text = String::from(operator(command.joint));
    if command.negated {
        text.push_str("! ");
    }
    for (name, value) in &command.assignments {
        text.push_str(&format!("{name}={} ", quote(value)));
    }
    text.push_str(program);
    for argument in command.words.iter().skip(1) {
        text.push(' ');
        text.push_str(&word(argument, quote));
    }
    command.redirects.iter().for_each(|it| text.push_str(&redirect(it, quote)));
    text
}

/// Returns what stands between a command and the one before it.
pub(super) fn operator(joint: Joint) -> &'static str {
    match joint {
        Joint::First => "",
        Joint::Pipe => " | ",
        Joint::And => " && ",
        Joint::Or => " || ",
        Joint::Then => "; ",
    }
}

/// Quotes `text` so that every shell reads it as this one word.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn word(word: &Word, quote: fn(&str) -> String) -> String {
    let parts = word.parts.iter().map(|part| match part {
        Part::Text(text) => quote(text),
        Part::Pattern(pattern) => pattern.clone(),
    });
    parts.collect()
}

fn redirect(redirect: &Redirect, quote: fn(&str) -> String) -> String {
    let stream = redirect.stream.map_or_else(String::new, String::from);
    match &redirect.target {
        Target::File(operator, path) => format!(" {stream}{operator}{}", quote(path)),
        Target::Stream(other) => format!(" {stream}>&{other}"),
    }
}
