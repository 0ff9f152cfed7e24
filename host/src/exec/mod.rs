//! Executors: each takes an [`Admitted`](crate::gate::Admitted) by value and runs it.
//!
//! A closed set. Deliberately absent: any check. Whoever holds an `Admitted` was checked.

pub mod wasm;
