//! Write a sandboxed tool in twenty lines of Rust.
//!
//! A tool is a struct for its arguments, a function, and one line in [`export!`]:
//!
//! ```no_run
//! use claw_tool::{Text, ToolError};
//!
//! #[claw_tool::input]
//! struct Greet {
//!     /// Who to greet.
//!     name: String,
//! }
//!
//! fn greet(args: &Greet) -> Result<Text, ToolError> {
//!     Ok(Text(format!("Hello, {}!", args.name)))
//! }
//!
//! claw_tool::export! {
//!     /// Greets someone by name.
//!     greet [read_only, idempotent],
//! }
//! # fn main() {}
//! ```
//!
//! The struct's doc comments and types become the JSON Schema a model reads; a function that
//! returns an [`output`] struct gets an output schema and structured content as well. What a
//! tool may do is what it imports, and it imports what it uses: [`channels`], [`fs`], [`http`],
//! [`keys`], [`memory`], [`models`], [`process`], [`provider`], [`secrets`], [`tools`]. A panic
//! reaches the host's log before the call fails.
//!
//! Deliberately absent: global state. Each call runs in a fresh instance, and nothing kept in
//! memory survives it. The allocator is set here, so a tool has none of its own.

#[doc(hidden)]
pub mod bindings;
pub mod channels;
pub mod env;
mod error;
pub mod fs;
#[cfg(all(target_arch = "wasm32", std_grows_first))]
mod heap;
pub mod http;
pub mod json;
pub mod keys;
pub mod log;
pub mod memory;
pub mod models;
pub mod process;
pub mod provider;
mod reply;
#[doc(hidden)]
pub mod rt;
pub mod secrets;
pub mod tools;

pub use claw_tool_macros::{input, output};
pub use error::ToolError;
pub use reply::{Blob, Blocks, Content, RESULT_BYTES_MAX, Reply, Text};
#[doc(hidden)]
pub use {schemars, serde};

/// Exports functions as the tools of this component.
///
/// Each entry is the tool's description as a doc comment, the name of a function
/// `fn(&Arguments) -> Result<impl Reply, ToolError>` in scope, which is also the tool's name,
/// and its hints: `read_only` or `writes`, `destructive` or `additive`, `idempotent`,
/// `open_world` or `closed_world`. A hint that is not given stays unsaid.
#[macro_export]
macro_rules! export {
    ($($(#[doc = $doc:literal])+ $name:ident $([$($hint:ident),* $(,)?])?),+ $(,)?) => {
        const _: () = {
            struct Component;

            impl $crate::rt::Guest for Component {
                fn describe() -> ::std::vec::Vec<$crate::rt::Definition> {
                    $crate::rt::hand_panics_to_the_log();
                    ::std::vec![$($crate::rt::define(
                        stringify!($name),
                        concat!($($doc, "\n"),+),
                        $crate::rt::Hints::default()$($(.$hint())*)?,
                        $name,
                    )),+]
                }

                fn call(
                    name: ::std::string::String,
                    arguments: ::std::string::String,
                ) -> ::std::result::Result<$crate::rt::Output, $crate::ToolError> {
                    $crate::rt::hand_panics_to_the_log();
                    match name.as_str() {
                        $(stringify!($name) => $crate::rt::run(&arguments, $name),)+
                        _ => $crate::rt::unknown(&name),
                    }
                }
            }

            #[cfg(target_arch = "wasm32")]
            $crate::bindings::export_component!(Component with_types_in $crate::bindings);
            // Elsewhere there is nobody to export to, but a tool's own tests still compile.
            #[cfg(not(target_arch = "wasm32"))]
            const _: fn() -> ::std::vec::Vec<$crate::rt::Definition> =
                <Component as $crate::rt::Guest>::describe;
        };
    };
}
