//! Tools that a model calls and its runner never sees: what is put into a request, what becomes of each
//! answer, and what the runner gets in the end.
//!
//! Requests and answers stay the JSON they came as; a [`Dialect`] knows where things stand in it, so that
//! what this host does not know passes through. Deliberately absent: carrying a call out, asking a model,
//! the time, and translation between the dialects.

mod anthropic;
pub(crate) mod bounds;
mod choice;
mod continuity;
mod dialect;
mod envelope;
mod named;
mod offers;
mod openai;
mod repeats;
mod responses;
#[cfg(test)]
mod tests;
mod turn;
mod usage;
mod values;

pub use self::anthropic::Anthropic;
pub use self::bounds::TurnBounds;
pub use self::continuity::{Kept, conversation, fit, weave};
pub use self::dialect::{Answered, Dialect, Events, ModelCall};
pub use self::envelope::{of_error, of_reply, refusal};
pub use self::named::{Named, made, named, spoken, write_out};
pub use self::offers::{Offer, Offers};
pub use self::openai::OpenAi;
pub use self::responses::Responses;
pub use self::turn::{Done, Failed, Job, Policy, Repeat, Step, Turn};
