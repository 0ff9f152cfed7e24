//! How much of what may be used up: calls of a principal, requests and tokens of a provider.
//!
//! Whoever asks is counted before anything happens, so that callers that race for the last token
//! never get more than there is; whoever is refused is not counted. A provider's report replaces what
//! was reserved only as far as the texts can bear it out: [`Reservation::charge`]. Days begin at midnight UTC,
//! minutes and hours slide. A limit of zero means none at all. Deliberately absent: the clock
//! (the time is an argument, in milliseconds since the epoch) and the store: a [`Ledger`] is data,
//! and the host keeps it.

mod budget;
mod ledger;
mod rates;
mod terms;
#[cfg(test)]
mod tests;
mod window;

pub use budget::{Budget, Spent};
pub use ledger::{Account, Ledger, Reservation};
pub use rates::CallRates;
pub(crate) use terms::NANO_USD_PER_USD;
pub use terms::{Ask, Prices, ProviderLimits, Used, estimate_tokens, nano_usd};
