//! Compiled JSON Schemas: compiled once, checked before every call and after every result.
//!
//! The dialect is 2020-12 unless `$schema` says otherwise. Deliberately absent: fetching.
//! A `$ref` to another document is an error at compile time.

mod compiled;
mod cost;
mod fault;
pub(crate) mod positions;
mod together;

pub use self::compiled::{Schema, UNCHECKED};
pub(crate) use self::cost::{compiled_bytes, percent_decoded};
pub use self::fault::Fault;
pub use self::together::together;
