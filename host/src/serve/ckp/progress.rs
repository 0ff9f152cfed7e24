//! `claw.tool.progress`: how a running call goes on, for clients that asked to hear it.
//!
//! Reports are advice: one that finds no room is dropped, and one may come behind the result.

use clawhost_core::json::put;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::host::ProgressSink;
use crate::serve::progress::growing;

/// Returns where a call reports to.
pub(super) fn sink(request_id: &str, notices: mpsc::Sender<Value>) -> ProgressSink {
    let request_id = request_id.to_owned();
    growing(move |done, total, text| {
        let mut params = json!({"request_id": request_id, "progress": done});
        put(&mut params, "total", total.map(Value::from));
        put(&mut params, "message", text.map(Value::from));
        let _ = notices
            .try_send(json!({"jsonrpc": "2.0", "method": "claw.tool.progress", "params": params}));
    })
}
