//! The bounds of what a caller, a tool, a service or a document may use of a host: consts with their units in their
//! names, and where each number comes from.
//!
//! One file a concept; `clawhost limits` prints [`TABLE`]. Deliberately absent: what bounds a module's own work,
//! such as what a message quotes or how a read is cut into pieces, which stands beside the code that knows why.

/// Makes consts of bounds, and a list of them all.
macro_rules! limits {
    ($all:ident; $($(#[doc = $doc:literal])+ $name:ident: $ty:ty = $value:expr;)+) => {
        $($(#[doc = $doc])+ pub const $name: $ty = $value;)+

        pub(super) const $all: &[super::Limit] = &[$(super::Limit {
            name: stringify!($name),
            value: $name as u64,
            reason: concat!($($doc),+),
        }),+];
    };
}

mod agents;
mod bridge;
mod calls;
mod components;
mod connections;
mod definitions;
mod documents;
mod operator;
mod reach;
mod record;
mod upstream;

use std::sync::LazyLock;

pub use self::agents::*;
pub use self::bridge::*;
pub use self::calls::*;
pub use self::components::*;
pub use self::connections::*;
pub use self::definitions::*;
pub use self::documents::*;
pub use self::operator::*;
pub use self::reach::*;
pub use self::record::*;
pub use self::upstream::*;

/// One row of the table that `clawhost limits` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The const's name, unit last.
    pub name: &'static str,
    /// Its value, in the unit the name ends with.
    pub value: u64,
    /// What it bounds, and why it has this value.
    pub reason: &'static str,
}

/// All bounds, file by file, in the order in which they are printed.
pub static TABLE: LazyLock<Vec<Limit>> = LazyLock::new(|| {
    [
        calls::CALLS,
        components::COMPONENTS,
        connections::CONNECTIONS,
        documents::DOCUMENTS,
        reach::REACH,
        record::RECORD,
        operator::OPERATOR,
        upstream::UPSTREAM,
        agents::AGENTS,
        bridge::BRIDGE,
        definitions::DEFINITIONS,
    ]
    .concat()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_positive_and_carries_its_unit_and_reason() {
        const UNITS: [&str; 9] =
            ["_MS", "_US", "_MB", "_MAX", "_MIN", "_INTERVAL", "_CALL", "_BYTES", "_PERMILLE"];
        for limit in &*TABLE {
            assert!(limit.value > 0, "{} is zero", limit.name);
            assert!(limit.reason.len() > 20, "{} has no reason", limit.name);
            // It is printed as it is.
            assert!(!limit.reason.contains("[`"), "{} has a link", limit.name);
            assert!(UNITS.iter().any(|unit| limit.name.ends_with(unit)), "{}", limit.name);
        }
    }
}
