//! `claw.swarm.*`: tasks, reports and messages between agents.
//!
//! An agent speaks for the identity that the runtime file gives it (`agents[].identity`), else for
//! the host's own: what its session's manifest says of itself proves nothing. Only the parent of a
//! host on standard input, which is the operator, is believed where it names a member of a swarm. A session that asked for it (`{"swarm": {"events": true}}`) counts as present
//! and is told of what is for it: messages as `claw.swarm.broadcast`, tasks as
//! `claw.swarm.delegate` and reports as `claw.swarm.report`, all of them notifications.

use std::sync::Arc;

use clawhost_core::error::CallError;
use clawhost_core::json::put;
use clawhost_core::uri::Kind;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::notice::Notice;
use super::session::{Agreed, Answer, Authority, ClawSession};
use crate::serve::calls::Calls;
use crate::serve::message::Fault;
use crate::serve::params::Params;
use crate::swarm::{Report, Status, Subscription, Swarm, SwarmEvent, Task};

impl<C: Calls> ClawSession<C> {
    pub(super) fn swarm_delegate(&self, params: Params<'_>) -> Result<Answer, Fault> {
        let task_id = params.name("task_id")?.to_owned();
        let task = Params::within(params.object("task")?, "task.");
        let description = task.text("description")?.into();
        let input = task.object_or_none("input")?.cloned();
        let input = input.map(|input| (&Value::Object(input)).into());
        let context = Params::within(params.object("context")?, "context.");
        let request_id = context.request_id("request_id")?.to_owned();
        let swarm = self.local_name(context, "swarm", Kind::Swarm, context.name("swarm")?)?;
        let ticket = self.ticket()?;
        let once = self.once("claw.swarm.delegate", &request_id, params, &ticket);
        let (swarms, from) = self.swarm("claw.swarm.delegate", &ticket.agreed)?;
        Ok(ticket.later(once.run(async move {
            let task = Task { task_id, swarm, description, input };
            acknowledged(swarms.delegate(&from, task).map(|()| true))
        })))
    }

    pub(super) fn swarm_report(&self, params: Params<'_>) -> Result<Answer, Fault> {
        let task_id = params.name("task_id")?.to_owned();
        let status = Status::read(params.text("status")?)
            .ok_or_else(|| params.fault("status", "has to be completed, failed or partial"))?;
        let result = (&Value::Object(params.object("result")?.clone())).into();
        let token_usage = params.number_or_none("token_usage", 0)?;
        let duration_ms = params.number_or_none("duration_ms", 0)?;
        let ticket = self.ticket()?;
        let (swarms, from) = self.swarm("claw.swarm.report", &ticket.agreed)?;
        let report = Report { task_id, status, result, token_usage, duration_ms };
        Ok(ticket.later(async move { acknowledged(swarms.report(&from, report)) }))
    }

    pub(super) fn swarm_discover(&self, params: Params<'_>) -> Result<Answer, Fault> {
        let name = params.text_or_none("swarm")?;
        let name =
            name.map(|name| self.local_name(params, "swarm", Kind::Swarm, name)).transpose()?;
        let ticket = self.ticket()?;
        let (swarms, _) = self.swarm("claw.swarm.discover", &ticket.agreed)?;
        let peers = swarms.discover(name.as_deref())?;
        let peer = |peer: crate::swarm::Peer| json!({"identity": peer.identity, "uri": peer.uri, "status": peer.status.name()});
        let peers: Vec<Value> = peers.into_iter().map(peer).collect();
        Ok(Answer::Now(Ok(json!({"peers": peers}))))
    }

    /// Passes a message on. Nobody hears what became of it: it was a notification.
    pub(super) fn swarm_broadcast(&self, params: Params<'_>) -> Result<(), Fault> {
        let name = self.local_name(params, "swarm", Kind::Swarm, params.name("swarm")?)?;
        let message = Value::Object(params.object("message")?.clone());
        let ticket = self.ticket()?;
        let (swarms, from) = self.swarm("claw.swarm.broadcast", &ticket.agreed)?;
        Ok(swarms.broadcast(&from, &name, &message)?)
    }

    fn swarm(&self, method: &str, agreed: &Agreed) -> Result<(Swarm, String), Fault> {
        let absent = || Fault::method(method, "this host has no swarm");
        let swarm = self.inner().calls.services().swarm.cloned().ok_or_else(absent)?;
        Ok((swarm, self.member(&agreed.manifest.identity)))
    }

    /// Returns who the agent is in swarms, whose session calls itself `identity`.
    fn member(&self, identity: &str) -> String {
        let services = self.inner().calls.services();
        let mut agents = services.manifest.swarms.iter().flat_map(|swarm| &swarm.agents);
        if self.inner().authority == Authority::Operator
            && agents.any(|agent| agent.identity == identity)
        {
            return identity.to_owned();
        }
        let given = services.identities.get(&self.inner().principal.0);
        given.unwrap_or(&services.manifest.identity).clone()
    }

    /// Tells the client what is for it, until `stopping`.
    pub(super) fn follow(&self, identity: &str, stopping: CancellationToken) {
        let Some(swarm) = self.inner().calls.services().swarm else { return };
        let events = swarm.subscribe(&self.member(identity));
        let telling = pass_on(events, self.inner().notices.clone());
        tokio::spawn(stopping.run_until_cancelled_owned(telling));
    }
}

/// Passes events on, each when the one before was taken: until then the swarm keeps what comes, and drops the oldest.
async fn pass_on(mut events: Subscription, notices: mpsc::Sender<Notice>) {
    let turns = Arc::new(Semaphore::new(1));
    while let Ok(turn) = Arc::clone(&turns).acquire_owned().await {
        let Some(notice) = notice(events.next().await) else { continue };
        if notices.send(notice.in_turn(turn)).await.is_err() {
            return;
        }
    }
}

fn acknowledged(outcome: Result<bool, CallError>) -> Result<Value, CallError> {
    outcome.map(|acknowledged| json!({"acknowledged": acknowledged}))
}

fn notice(event: SwarmEvent) -> Option<Notice> {
    let (method, params) = match event {
        SwarmEvent::Message { swarm, from, message } => (
            "claw.swarm.broadcast",
            json!({"swarm": swarm, "message": message.value(), "context": {"from": from}}),
        ),
        SwarmEvent::Task { from, task } => {
            let mut work = json!({"description": &*task.description});
            put(&mut work, "input", task.input.map(|input| input.value()));
            let context = json!({"swarm": task.swarm, "from": from});
            let params = json!({"task_id": task.task_id, "task": work, "context": context});
            ("claw.swarm.delegate", params)
        }
        SwarmEvent::Report { swarm, from, report } => {
            let mut told = json!({
                "task_id": report.task_id, "status": report.status.name(),
                "result": report.result.value(), "context": {"swarm": swarm, "from": from},
            });
            put(&mut told, "token_usage", report.token_usage.map(Value::from));
            put(&mut told, "duration_ms", report.duration_ms.map(Value::from));
            ("claw.swarm.report", told)
        }
        SwarmEvent::Missed(events) => {
            tracing::warn!(events, "a session was too slow for its swarm");
            return None;
        }
    };
    Some(Notice::new(method, &params))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use clawhost_core::limits::CLAW_NOTICES_MAX;
    use clawhost_core::manifest::Topology;

    use super::*;
    use crate::clock::Clock;
    use crate::swarm::tests::plan;
    use crate::telemetry::Telemetry;

    #[tokio::test]
    async fn what_nobody_listens_to_waits_in_the_swarm() {
        let crew = plan(Topology::LeaderWorker, &[("boss", "leader", 1), ("ant", "worker", 1)]);
        let clock = Clock::of(&Arc::new(AtomicI64::new(0)));
        let swarm = Swarm::new(vec![crew], "boss", Telemetry::off(), clock);
        let (notices, mut unasked) = mpsc::channel(CLAW_NOTICES_MAX);
        tokio::spawn(pass_on(swarm.subscribe("ant"), notices));
        for number in 0..3 {
            swarm.broadcast("boss", "crew", &json!({ "number": number })).unwrap();
        }
        for number in 0..3 {
            let notice = unasked.recv().await.unwrap();
            assert!(notice.text.contains(&format!("{{\"number\":{number}}}")), "{}", notice.text);
            tokio::task::yield_now().await;
            assert!(unasked.try_recv().is_err(), "the one before was not taken");
        }
    }
}
