//! Runs Python programs, for the tools that do.
//!
//! Deliberately absent: everything outside the interpreter. It has a subset of the language and a
//! few modules of the standard library; files, network and other packages are not among them.

mod session;
mod system;

pub use session::{Host, interpret};
