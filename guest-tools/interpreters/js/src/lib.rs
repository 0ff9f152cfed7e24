//! Runs JavaScript programs, for the tools that do.
//!
//! Deliberately absent: everything that is not in the language but `console` and `input`. There is no
//! `require`, no `fetch`, no timer; `import` finds nothing. What else a program has, its tool gives it.

mod console;
mod engine;
mod rejections;

pub use engine::interpret;
