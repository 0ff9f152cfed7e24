//! The one type of `wasm-bindgen` that `chrono` names, where there is no JavaScript to call.
//!
//! The real one gives every module imports that only a JavaScript host can satisfy.

/// A number on its way to a `Date`.
#[derive(Debug, Clone, Copy)]
pub struct JsValue(pub f64);

impl JsValue {
    /// Wraps a number.
    #[must_use]
    pub fn from_f64(number: f64) -> Self {
        Self(number)
    }
}
