//! Which hosts a call may reach: the one checker of names, addresses, ports and headers.
//!
//! A request passes three checks in this order: [`EgressRules::check_url`] before anything is
//! resolved, [`EgressRules::check_addresses`] on every answer of the one look-up, and
//! [`check_request`] on its method and headers. A redirect is a new request and starts over.
//!
//! Deliberately absent: looking up names, connecting, following redirects. Whoever acts on a
//! verdict connects only to an address that came out of `check_addresses`.
//!
//! Every refusal reads the same from outside ([`EgressDenied`]'s text), so that a guest learns
//! nothing about what is behind a door that stays shut; the reason is for the audit record.

mod address;
mod denied;
mod endpoint;
mod narrow;
mod pattern;
mod request;
mod rules;
#[cfg(test)]
mod tests;

pub use address::{Reach, reach};
pub use denied::{EgressDenied, Reason};
pub use endpoint::endpoint;
pub(crate) use narrow::shared;
pub use pattern::HostPattern;
pub use request::{METHODS, check_request, is_forbidden_header, percent_encoded};
pub use rules::{
    EgressRules, HostRules, PORTS_DEFAULT, Schemes, Target, TargetHost, is_this_machine, parse_url,
};
