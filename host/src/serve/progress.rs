//! What clients are told of a running call's progress: what grows, and not without end.
//!
//! A sandbox holds its guest to this already; a call that is tried again starts over.

use std::sync::Arc;

use clawhost_core::limits::CALL_PROGRESS_MAX;
use parking_lot::Mutex;

use crate::host::ProgressSink;

/// Passes on to `sink` what a client may be told. Progress that does not grow, or is no number, is
/// no progress.
pub(super) fn growing(
    sink: impl Fn(f64, Option<f64>, Option<String>) + Send + Sync + 'static,
) -> ProgressSink {
    let told = Mutex::new((0, f64::NEG_INFINITY));
    Arc::new(move |done, total, text| {
        let mut told = told.lock();
        let (count, last) = *told;
        if done.is_finite() && done > last && count < CALL_PROGRESS_MAX {
            *told = (count + 1, done);
            sink(done, total.filter(|total| total.is_finite()), text);
        }
    })
}
