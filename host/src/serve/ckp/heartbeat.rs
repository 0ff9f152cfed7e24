//! `claw.heartbeat`: the session says from time to time that it is ready.
//!
//! Never before `claw.initialize` is answered, never from STOPPING on, and not while the last one
//! has not been taken: who does not read is not told twice.

use std::sync::{Arc, Weak};
use std::time::Duration;

use clawhost_core::json::put;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use super::notice::Notice;
use super::session::Inner;
use crate::clock::{now_ms, rfc3339};

/// Begins to beat until `stopping` or until the session is gone; not at all without an interval.
pub(super) fn start<C: Send + Sync + 'static>(
    every: Option<Duration>,
    session: &Arc<Inner<C>>,
    stopping: CancellationToken,
) {
    let Some(every) = every else { return };
    tokio::spawn(stopping.run_until_cancelled_owned(beat(every, Arc::downgrade(session))));
}

async fn beat<C>(every: Duration, session: Weak<Inner<C>>) {
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(session) = session.upgrade() else { return };
        let mut params = session.state();
        if params.get("state").and_then(Value::as_str) == Some("READY")
            && session.notices.capacity() == session.notices.max_capacity()
        {
            put(&mut params, "timestamp", Some(rfc3339(now_ms()).into()));
            // One that finds no room is not missed.
            let _ = session.notices.try_send(Notice::new("claw.heartbeat", &params));
        }
    }
}
