//! Composites: tools that are made of others, one step after the other.
//!
//! A composite grants nothing: each of its steps is a call like any other. Here is what can be said
//! before a step runs (what it needs, which steps may run beside each other, whether the whole ends)
//! and what passes from one step to the next. Deliberately absent: conditions and loops, which code
//! mode is for, and running anything.

mod bounds;
mod mapping;
mod steps;
#[cfg(test)]
mod tests;

pub use self::bounds::{Called, CompositeBounds, Fault};
pub use self::mapping::{Mapping, Source, Unmade, is_key};
pub use self::steps::{Composite, Step, WRAPPED_AS, local_name, output};
