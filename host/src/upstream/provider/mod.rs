//! Completions of language models, for tools, and vectors, for memory stores: the manifest's providers,
//! within their quotas.
//!
//! Nothing connects before the first completion. Each attempt is reserved in the ledger before it
//! is sent, so that no number of callers beside each other exceeds a limit; what was sent and not
//! answered is spent. A request that a quota refuses is refused: it does not go to the next
//! provider, whose own quota it would use up in the other's place.
//!
//! Deliberately absent: tokens that have to be fetched (OAuth) and transports other than HTTP; for
//! tools, whose requests are translated, streaming and content other than text too.

mod anthropic;
mod api;
mod attempt;
mod book;
mod chain;
mod costs;
mod embed;
mod forward;
mod open;
mod openai;
mod providers;
mod request;
mod spend;
mod wire;
mod written;

pub use self::api::{Api, StoredCall};
pub use self::book::MIGRATIONS;
pub(crate) use self::book::read_costs;
pub use self::costs::{Caller, Cost};
pub use self::embed::{Embed, EmbedError};
pub use self::forward::{Answered, Forward, Forwarded, HeldReservation};
pub use self::providers::{Providers, UsageSink};
pub(crate) use self::request::written_bytes;
