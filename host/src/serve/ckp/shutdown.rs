//! `claw.shutdown`: no more calls, time for those that run, an end to the rest.

use std::time::Duration;

use clawhost_core::limits::{SHUTDOWN_GRACE_MS, SHUTDOWN_TIMEOUT_CEILING_MS};
use serde_json::json;
use tokio::time::timeout;

use super::session::{Answer, Authority, ClawSession};
use crate::serve::calls::{Calls, host_failed};
use crate::serve::message::{Fault, Outcome};
use crate::serve::params::Params;

impl<C: Calls> ClawSession<C> {
    pub(super) fn shutdown(&self, params: Params<'_>) -> Result<Answer, Fault> {
        params.text_or_none("reason")?;
        let asked = params.number_or_none("timeout_ms", 0)?;
        let wait = Duration::from_millis(
            asked.unwrap_or(SHUTDOWN_GRACE_MS).min(SHUTDOWN_TIMEOUT_CEILING_MS),
        );
        let step = self.life().stop()?;
        self.tell(step);
        // A task of its own: the session stops even where nobody waits for the answer any more.
        let draining = tokio::spawn(self.clone().drain(wait));
        Ok(Answer::Later(Box::pin(async move {
            let failed = |_| Fault::from(host_failed());
            (draining.await.map_err(failed).and_then(|outcome| outcome), None)
        })))
    }

    /// Waits for what runs, ends what is left, and says whether nothing was.
    async fn drain(self, wait: Duration) -> Outcome {
        let mut running = self.running();
        let idle = async {
            // The senders are the session's own, so waiting ends only with zero.
            let _ = running.wait_for(|running| *running == 0).await;
            // Whoever owns the host stops it: what MCP began on the same connection counts too.
            if self.inner().authority == Authority::Operator {
                self.inner().calls.services().running.wait().await;
            }
        };
        let drained = timeout(wait, idle).await.is_ok();
        let ended = self.life().ended().clone();
        ended.cancel();
        let _ = running.wait_for(|running| *running == 0).await;
        let step = self.life().stopped();
        self.tell(step);
        Ok(json!({"drained": drained}))
    }
}
