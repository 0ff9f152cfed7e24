//! What a hostile guest, or a hostile directory, tries; with canaries outside the grant.
#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out and inspect the host's side of a directory"
)]

pub(super) mod place;

mod grants;
mod objects;
mod paths;
mod plans;
mod wasi;
