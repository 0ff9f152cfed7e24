//! The part of `js-sys` that `chrono` names, where there is no JavaScript to call.
//!
//! The interpreters ask their own clock, never `chrono`'s: the present is deliberately absent
//! here, and every time zone is UTC.

use wasm_bindgen::JsValue;

/// Milliseconds since the epoch.
#[derive(Debug, Clone, Copy)]
pub struct Date(f64);

impl Date {
    /// Returns the moment `milliseconds` after the epoch.
    #[must_use]
    pub fn new(milliseconds: &JsValue) -> Self {
        Self(milliseconds.0)
    }

    /// Returns no moment at all: a `Date` is not how one learns the time here.
    #[must_use]
    pub fn new_0() -> Self {
        Self(f64::NAN)
    }

    /// Returns no moment at all; only its time zone is ever asked for.
    #[must_use]
    pub fn new_with_year_month_day_hr_min_sec(
        _year: u32,
        _month: i32,
        _day: i32,
        _hour: i32,
        _minute: i32,
        _second: i32,
    ) -> Self {
        Self(f64::NAN)
    }

    /// Returns its milliseconds since the epoch.
    #[must_use]
    pub fn get_time(&self) -> f64 {
        self.0
    }

    /// Returns the minutes UTC is ahead of it: none.
    #[must_use]
    pub fn get_timezone_offset(&self) -> f64 {
        0.0
    }
}
