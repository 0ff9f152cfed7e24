//! What a runner never saw of earlier turns, put back before the message that came of it.

use serde_json::{Value, json};

use super::dialect::Dialect;
use super::envelope::{said_in, shorten, text_len};
use super::values::{at, set, texts};
use crate::json::{items, text};
use crate::{digest, truncate};

/// The hidden messages of one turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// What tells the message that the runner got.
    pub anchor: String,
    /// How many messages the runner had sent, behind which it put that one; `usize::MAX` where nobody knows.
    pub place: usize,
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

/// Returns how often the model was told what its calls came to since the user spoke last. What comes with results
/// is none of the user's: clients put words of their own beside them.
pub(super) fn iterations(dialect: &dyn Dialect, request: &Value) -> u32 {
    let all = items(request, dialect.messages()).iter();
    let is_spoken =
        |message: &&Value| text(message, "role") == "user" && !dialect.has_results(message);
    let since = all.rev().take_while(|message| !is_spoken(message));
    let told: Vec<bool> = since.map(|message| dialect.has_results(message)).collect();
    // Those of one answer stand together.
    let count = told.chunk_by(|one, other| one == other).filter(|run| run.first() == Some(&true));
    u32::try_from(count.count()).unwrap_or(u32::MAX)
}

/// Puts the hidden messages of each of `turns`, the oldest first, before the message that they led to.
///
/// Of two messages with the same words the later one is that of the later turn. Turns whose message is not
/// there are left out.
pub fn weave(dialect: &dyn Dialect, request: &mut Value, turns: Vec<Kept>) {
    let messages = request.get_mut(dialect.messages()).and_then(Value::as_array_mut);
    let Some(messages) = messages.filter(|_| !turns.is_empty()) else { return };
    let anchors: Vec<Option<String>> =
        messages.iter().map(|message| dialect.anchor(message)).collect();
    let mut end = messages.len();
    for turn in turns.into_iter().rev() {
        let Some(mut at) = find(&anchors, end, &turn) else { continue };
        while at > 0 && messages.get(at - 1).is_some_and(|message| dialect.leads(message)) {
            at -= 1;
        }
        messages.splice(at..at, turn.hidden);
        end = at;
    }
}

/// Returns which of the messages before `end`, by their anchors, a turn led to: the first of the model's behind
/// what the runner had sent; where that is another, as runners leave out what is old, the last with its words.
fn find(anchors: &[Option<String>], end: usize, turn: &Kept) -> Option<usize> {
    let own = Some(turn.anchor.as_str());
    let mut behind = anchors.iter().enumerate().skip(turn.place);
    let answer = behind.find(|(_, anchor)| anchor.is_some());
    match answer.filter(|(_, anchor)| anchor.as_deref() == own) {
        // A later turn that has it is the same one, made again.
        Some((at, _)) => Some(at).filter(|at| *at < end),
        None => anchors.iter().take(end).rposition(|anchor| anchor.as_deref() == own),
    }
}

/// Shortens the longest results in the messages of a turn, so that all of it takes at most `bytes_max` as JSON,
/// where they are what is too long. What was said and called stays as it is: providers read it back.
pub fn fit(dialect: &dyn Dialect, messages: &mut [Value], bytes_max: usize) {
    // With a comma, or a bracket, behind each, and a bracket.
    let bytes = messages.iter().map(|message| message.to_string().len() + 1).sum::<usize>() + 1;
    if bytes <= bytes_max {
        return;
    }
    let results: Vec<&mut Value> =
        messages.iter_mut().flat_map(|message| dialect.results(message)).collect();
    let costs: Vec<usize> = results.iter().map(|result| result.to_string().len()).collect();
    let others = bytes.saturating_sub(costs.iter().sum());
    let most = truncate::level(costs.clone(), bytes_max.saturating_sub(others));
    for (result, _) in results.into_iter().zip(costs).filter(|(_, cost)| *cost > most) {
        *result = shortened(result.as_str().unwrap_or_default(), most).into();
    }
}

/// Returns a result that takes at most `bytes_max` as a text in JSON: an envelope still, of which what was said
/// is cut, where that is long.
fn shortened(result: &str, bytes_max: usize) -> String {
    let read = crate::json::parse(result.as_bytes());
    let mut envelope = read.unwrap_or_else(|_| json!({ "data": result }));
    if envelope.get("original_bytes").is_none()
        && let Some(said) = said_in(&envelope)
    {
        let bytes = text_len(said);
        set(&mut envelope, "original_bytes", bytes.into());
    }
    set(&mut envelope, "truncated", true.into());
    let len = |envelope: &Value| Value::from(envelope.to_string()).to_string().len();
    shorten(&mut envelope, bytes_max, len, truncate::twice_escaped);
    envelope.to_string()
}
