//! `claw.tool.progress`: how a running call goes on, for clients that asked to hear it.
//!
//! Reports are advice: one that finds no room is dropped, and one may come behind the result.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use clawhost_core::limits::CALL_PROGRESS_MAX;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::members::put;
use crate::host::ProgressSink;

/// What a call has reported so far.
struct Reported {
    count: u32,
    last: f64,
}

/// Returns where a call reports to.
pub(super) fn sink(request_id: &str, notices: mpsc::Sender<Value>) -> ProgressSink {
    let request_id = request_id.to_owned();
    let reported = Mutex::new(Reported { count: 0, last: f64::NEG_INFINITY });
    Arc::new(move |done, total, text| {
        if !reported.lock().unwrap_or_else(PoisonError::into_inner).grows(done) {
            return;
        }
        let mut params = json!({"request_id": request_id, "progress": done});
        put(&mut params, "total", total.filter(|total| total.is_finite()).map(Value::from));
        put(&mut params, "message", text.map(Value::from));
        let _ = notices
            .try_send(json!({"jsonrpc": "2.0", "method": "claw.tool.progress", "params": params}));
    })
}

impl Reported {
    /// Progress that does not grow, or is no number, is no progress.
    fn grows(&mut self, done: f64) -> bool {
        let grows = done.is_finite() && done > self.last && self.count < CALL_PROGRESS_MAX;
        if grows {
            self.last = done;
            self.count += 1;
        }
        grows
    }
}
