//! What a dialect knows: where things stand in the requests and answers of one kind of provider.

use serde_json::Value;

use super::offers::Offers;

/// The events of a stream, one after the other.
pub type Events = Box<dyn Iterator<Item = String> + Send + Sync>;

/// A call of a tool as a model wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCall {
    /// What its result has to name.
    pub id: String,
    /// The tool, as the model calls it.
    pub name: String,
    /// An object, or why there is none.
    pub arguments: Result<Value, String>,
}

/// The id of a call, and its result.
pub type Answered = (String, Value);

/// Where things stand in the requests and answers of one kind of provider.
pub trait Dialect: Sync + std::fmt::Debug {
    /// Returns what the dialect is called in records.
    fn name(&self) -> &'static str;

    /// Returns the key of what was said so far.
    fn messages(&self) -> &'static str {
        "messages"
    }

    /// Says why tools of ours cannot be put into a request.
    fn unmediated(&self, _request: &Value) -> Option<&'static str> {
        None
    }

    /// Returns the names of the runner's own tools.
    fn declared(&self, request: &Value) -> Vec<String>;

    /// Puts `offers` behind the runner's own tools, and asks for the answer in one piece.
    fn inject(&self, request: &mut Value, offers: &Offers);

    /// Says whether an answer is none, but an error.
    fn is_error(&self, answer: &Value) -> bool;

    /// Returns the calls that an answer makes, in order. Ids that are missing, or there twice, are put in,
    /// as results need them; a second answer beside the first is taken out.
    fn calls(&self, answer: &mut Value, round: u32) -> Vec<ModelCall>;

    /// Says whether an answer ends where its room did, so that its last call may be a part of one.
    fn is_cut(&self, answer: &Value) -> bool;

    /// Appends to a request what the model said, with its first `kept` calls, and their results by id.
    fn append(&self, request: &mut Value, answer: &Value, kept: usize, results: &[Answered]);

    /// Returns the results that a message of [`Dialect::append`] holds.
    fn results<'m>(&self, message: &'m mut Value) -> Vec<&'m mut Value>;

    /// Says whether a message brings what calls came to, of the runner's own tools too.
    fn has_results(&self, message: &Value) -> bool;

    /// Takes all tools away, and tells the model why.
    fn without_tools(&self, request: &mut Value, instruction: &str);

    /// Turns an answer that calls tools into one that says nothing more.
    fn end(&self, answer: &mut Value);

    /// Gives an answer the form in which the runner's request `asked` for it.
    fn deliver(&self, _asked: &Value, _answer: &mut Value) {}

    /// Returns an answer as the server-sent events of a stream, each made when it is asked for: together
    /// they are many times as long as the answer.
    fn events(&self, answer: Value, asked: &Value) -> Events;

    /// Returns the body of an error of that HTTP status.
    fn error(&self, status: u16, message: &str) -> Value;

    /// Returns an error as the end of a stream.
    fn error_event(&self, error: &Value) -> String;

    /// Returns the message that an answer holds, as a runner sends it back.
    fn message(&self, answer: &Value) -> Value;

    /// Returns what tells a message of the model from its others: the ids of its calls, else its text.
    /// Nothing for messages of others.
    fn anchor(&self, message: &Value) -> Option<String>;

    /// Says whether a message is nothing by itself and belongs to the one behind it.
    fn leads(&self, _message: &Value) -> bool {
        false
    }
}
