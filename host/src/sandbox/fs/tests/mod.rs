//! What a hostile guest, or a hostile directory, tries; with canaries outside the grant.

pub(super) mod place;

mod grants;
mod objects;
mod paths;
mod plans;
mod wasi;
