//! What clients are told of a running call's progress: what grows, and not without end.
//!
//! A sandbox holds its guest to this already; a call that is tried again starts over.

use std::sync::Arc;

use clawhost_core::error::CallError;
use clawhost_core::limits::{CALL_PROGRESS_MAX, CALL_PROGRESS_QUEUE_MAX, REQUEST_ID_BYTES_MAX};
use clawhost_core::reply::ToolReply;
use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken, RequestId};
use rmcp::service::Peer;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

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

/// One report of a running call: how far, of how much, and a word about it.
pub(super) type Update = (f64, Option<f64>, Option<String>);

/// Returns where a call's reports go in, and where they come out.
pub(super) fn progress_channel() -> (ProgressSink, mpsc::Receiver<Update>) {
    let (sender, receiver) = mpsc::channel(CALL_PROGRESS_QUEUE_MAX);
    let sink = growing(move |done, total, text| {
        // A full queue means a client that reads slowly: it misses a report, the call goes on.
        let _ = sender.try_send((done, total, text));
    });
    (sink, receiver)
}

/// Says whether a client is told of progress under `token`, which each report repeats: it is no longer than an id.
pub(super) fn is_token(token: &ProgressToken) -> bool {
    !matches!(&token.0, RequestId::String(text) if text.len() > REQUEST_ID_BYTES_MAX)
}

/// What a request's client was told of its progress, whoever told it: each report says more than the one
/// before.
pub(super) struct Told {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    /// How far. Held while it is told, as what is told arrives in that order.
    last: tokio::sync::Mutex<Option<f64>>,
}

/// How much further a call is that waits: less than any step of a tool's own.
const WAITING_STEP: f64 = 1e-7;

impl Told {
    /// Returns a client that was told nothing yet, and hears of progress under `token`.
    pub(super) fn new(peer: Peer<RoleServer>, token: ProgressToken) -> Self {
        Self { peer, token, last: tokio::sync::Mutex::default() }
    }

    /// Says that the call waits, and `why`; returns whether that could be said.
    pub(super) async fn wait(&self, why: &str) -> bool {
        let mut last = self.last.lock().await;
        // The step is nothing beside a large number.
        let done = last.map_or(0.0, |last| (last + WAITING_STEP).max(last.next_up()));
        *last = Some(done);
        let report = ProgressNotificationParam::new(self.token.clone(), done).with_message(why);
        !done.is_finite() || self.peer.notify_progress(report).await.is_ok()
    }
}

/// Where a call's reports go.
pub(super) struct Reports {
    pub(super) told: Arc<Told>,
    /// Cancelled when the request is answered and nothing may be said about it any more.
    pub(super) silenced: CancellationToken,
}

impl Reports {
    async fn tell(&self, (done, total, text): Update) {
        let mut last = self.told.last.lock().await;
        if self.silenced.is_cancelled() || last.is_some_and(|last| done <= last) {
            return;
        }
        *last = Some(done);
        let mut param = ProgressNotificationParam::new(self.told.token.clone(), done);
        param.total = total;
        param.message = text;
        // Reports are advice: the call goes on without.
        let _ = self.told.peer.notify_progress(param).await;
    }
}

/// Runs `call` and, beside it, passes its reports on. All of them go out before the result.
pub(super) async fn with_progress(
    call: impl Future<Output = Result<ToolReply, CallError>>,
    mut updates: mpsc::Receiver<Update>,
    reports: &Reports,
) -> Result<ToolReply, CallError> {
    let finished = CancellationToken::new();
    let forward = async {
        // What was reported before the end is passed on behind it.
        while let Some(update) = match finished.run_until_cancelled(updates.recv()).await {
            Some(update) => update,
            None => updates.try_recv().ok(),
        } {
            reports.tell(update).await;
        }
    };
    let call = async {
        let outcome = call.await;
        finished.cancel();
        outcome
    };
    tokio::join!(call, forward).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_report_repeats_is_no_longer_than_an_id() {
        let text = |bytes: usize| RequestId::String("t".repeat(bytes).into());
        for token in [RequestId::Number(7), text(REQUEST_ID_BYTES_MAX)] {
            assert!(is_token(&ProgressToken(token)));
        }
        assert!(!is_token(&ProgressToken(text(REQUEST_ID_BYTES_MAX + 1))));
    }
}
