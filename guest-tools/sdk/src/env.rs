//! Variables that the operator sets for the tool. Empty where nothing was set.

use crate::bindings::wasi::cli::environment::get_environment;

/// Returns the variable `name`, where it is set.
#[must_use]
pub fn var(name: &str) -> Option<String> {
    let found = get_environment().into_iter().find(|(given, _)| given == name);
    found.map(|(_, value)| value)
}
