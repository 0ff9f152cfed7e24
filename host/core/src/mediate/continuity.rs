//! What a runner never saw of earlier turns, put back before the message that came of it.

use serde_json::Value;

use super::{Dialect, at, items, text, texts};
use crate::digest;

/// The hidden messages of one turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// What tells the message that the runner got.
    pub anchor: String,
    /// What the model and its tools said before it.
    pub hidden: Vec<Value>,
}

/// Returns what tells one conversation from another, where nobody names it: its first words.
pub fn conversation(dialect: &dyn Dialect, request: &Value) -> String {
    let all = items(request, dialect.messages());
    let first = all.iter().find(|message| text(message, "role") == "user");
    let said =
        first.map_or_else(|| at(request, dialect.messages()), |message| at(message, "content"));
    let said = texts(said);
    digest::of_bytes(said.as_bytes())
}

/// Puts the hidden messages of each of `turns`, the oldest first, before the message that they led to.
///
/// Matched from the end: of two messages with the same words the later one is that of the later turn. Turns
/// whose message is not there are left out.
pub fn weave(dialect: &dyn Dialect, request: &mut Value, turns: Vec<Kept>) {
    let Some(messages) = request.get_mut(dialect.messages()).and_then(Value::as_array_mut) else {
        return;
    };
    let mut end = messages.len();
    for turn in turns.into_iter().rev() {
        let is_it = |message: &Value| dialect.anchor(message).is_some_and(|own| own == turn.anchor);
        if let Some(mut at) = messages.iter().take(end).rposition(is_it) {
            while at > 0 && messages.get(at - 1).is_some_and(|message| dialect.leads(message)) {
                at -= 1;
            }
            messages.splice(at..at, turn.hidden);
            end = at;
        }
    }
}
