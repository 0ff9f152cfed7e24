//! The engine: reads, compiles, caches and introspects components.
//!
//! Deliberately absent: calls. `exec::wasm` makes them, from what [`Engine::load`] returns.

mod cache;
pub(crate) mod check;
pub(crate) mod compiler;
mod describe;
pub(crate) mod kinds;
mod load;
mod loaded;
mod runtime;
mod schemas;
mod settings;
mod turn;

pub(crate) use cache::CODE_ENDING;
pub use cache::CodeCache;
pub use load::{Engine, LoadError};
pub use loaded::{About, Loaded};
pub(crate) use loaded::{Code, Source};
pub use schemas::Schemas;
pub use settings::Allocator;
pub(crate) use settings::given_back;
pub(crate) use turn::{Turn, background};
