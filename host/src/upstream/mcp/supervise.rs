//! One task for each server: connects, lists, looks again, and begins anew when it ends.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clawhost_core::catalog::ToolDefinition;
use clawhost_core::exposed::Exposed;
use clawhost_core::limits::{
    BRIDGE_CALM_MS, BRIDGE_CIRCUIT_MS, BRIDGE_ENDS_MAX, BRIDGE_RELIST_MS, BRIDGE_RELIST_PAUSE_MS,
    BRIDGE_RESTART_CEILING_MS, BRIDGE_RESTART_MS, BRIDGE_STABLE_MS, BRIDGE_START_MS,
    ERROR_TEXT_BYTES_MAX,
};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::complaints::Complaints;
use super::failure::{Failure, told};
use super::handshake::Hello;
use super::pipe::Pipe;
use super::questions::{Granted, capabilities};
use super::session::{ServerSession, Wire};
use super::web::Web;
use super::{Endpoint, Restart, ServerOffers, ServerParts, ServerPlan, State, credentials};
use crate::jail::{self, JailError, JailSpec};
use crate::random;
use crate::upstream::oauth::Tokens;

/// What a server's task works with.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) plan: ServerPlan,
    pub(super) parts: ServerParts,
    /// Its messages are passed on by somebody else: it is asked nothing but `initialize`.
    pub(super) relayed: Option<Restart>,
    pub(super) offers: watch::Sender<ServerOffers>,
    pub(super) session: watch::Sender<Option<Arc<ServerSession>>>,
    pub(super) stop: CancellationToken,
    /// The jail of a program, opened when it is first started: what replaces a folder later is not
    /// let in with the next start.
    pub(super) jail: OnceLock<JailSpec>,
}

/// How often a server had its lists looked at lately: each time doubles the wait for the next.
#[derive(Debug, Default)]
struct Calm {
    looks: u32,
    last: Option<Instant>,
}

impl Calm {
    /// Returns how long to wait before a look at `now`.
    fn pause(&mut self, now: Instant) -> Duration {
        let calm = Duration::from_millis(BRIDGE_CALM_MS);
        if self.last.is_none_or(|last| now.saturating_duration_since(last) >= calm) {
            self.looks = 0;
        }
        let doubled = BRIDGE_RELIST_PAUSE_MS.saturating_mul(2_u64.saturating_pow(self.looks));
        (self.looks, self.last) = (self.looks.saturating_add(1), Some(now));
        Duration::from_millis(doubled.min(BRIDGE_RELIST_MS))
    }
}

/// How one connection went.
struct ConnectionLife {
    /// Why it ended.
    reason: String,
    /// When its tools were known.
    ready: Option<Instant>,
    /// Whether the two agreed on a revision.
    met: bool,
    /// Whether nobody is logged in to it.
    wants_login: bool,
    /// How often its lists were looked at, in this life and those before.
    calm: Calm,
}

impl Supervisor {
    /// Keeps the server going until it is told to stop, which is no failure of its own.
    pub(super) async fn run(self) {
        let (mut ends, mut probes, mut calm) = (0, self.relayed.is_none(), Calm::default());
        while !self.stop.is_cancelled() {
            self.offers.send_modify(|offers| offers.state = State::Connecting);
            let life = self.live(probes, calm).await;
            calm = life.calm;
            self.session.send_replace(None);
            if self.stop.is_cancelled() {
                break;
            }
            // A server that a probe ends is asked in the older way, and then the other way again.
            probes = self.relayed.is_none() && (life.met || !probes);
            let stable = Duration::from_millis(BRIDGE_STABLE_MS);
            let was_stable = life.ready.is_some_and(|ready| ready.elapsed() >= stable);
            ends = if was_stable { 1 } else { ends + 1 };
            let wait = wait_after(ends, self.relayed);
            self.failed(&life.reason, life.wants_login, wait, ends);
            tokio::select! {
                () = sleep(wait) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }

    fn failed(&self, reason: &str, wants_login: bool, wait: Duration, ends: u32) {
        let reason = told(&self.parts.secrets.redactor(), reason, ERROR_TEXT_BYTES_MAX);
        let (server, wait_ms) = (&self.plan.name, wait.as_millis());
        debug!(server, "not available, attempt {ends}, the next in {wait_ms} ms: {reason}");
        let state = State::Failed { reason, wants_login, attempt: ends, wait };
        self.offers.send_modify(|offers| offers.state = state);
    }

    /// Makes one connection and keeps it for as long as it lasts.
    async fn live(&self, probes: bool, calm: Calm) -> ConnectionLife {
        let (reason, wants_login) = (String::new(), false);
        let mut life = ConnectionLife { reason, ready: None, met: false, wants_login, calm };
        life.reason = match &self.plan.endpoint {
            Endpoint::Stdio { .. } => self.live_in_jail(probes, &mut life).await,
            Endpoint::Http { .. } => self.live_on_the_web(probes, &mut life).await,
        };
        life
    }

    async fn live_in_jail(&self, probes: bool, life: &mut ConnectionLife) -> String {
        let child = tokio::select! {
            child = self.start() => child,
            () = self.stop.cancelled() => return String::new(),
        };
        let child = match child {
            Ok(child) => child,
            Err(reason) => return reason,
        };
        let secrets = self.parts.secrets.clone();
        let complaints = Complaints::of(&self.plan.name, secrets.clone());
        let changed = Arc::new(Notify::new());
        let granted = Granted::of(&self.plan).map(Arc::new);
        let beside = (Arc::clone(&changed), granted);
        let (pipe, driver) = Pipe::open(child, complaints, secrets, beside);
        let session =
            Arc::new(ServerSession::new(Wire::Pipe(pipe), capabilities(&self.plan.expose)));
        // Told by whichever of the two ends first; the program is gone when both have.
        let over = self.stop.child_token();
        let work = async {
            let failure = self.serve(&session, probes, &changed, life).await;
            over.cancel();
            failure
        };
        let drive = driver.run(&over);
        tokio::pin!(work, drive);
        tokio::select! {
            reason = &mut drive => reason,
            failure = &mut work => {
                let end = drive.await;
                format!("{failure}; {end}")
            }
        }
    }

    async fn start(&self) -> Result<jail::Child, String> {
        let Endpoint::Stdio { argv, env, grants } = &self.plan.endpoint else {
            return Err("it is no program".to_owned());
        };
        let env = credentials::environment(env, &self.parts.secrets).await?;
        if self.jail.get().is_none() {
            // Nobody else opens it.
            let _ = self.jail.set(credentials::jail(grants)?);
        }
        let spec = self.jail.get().ok_or("it has no jail")?;
        let given = env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        jail::start(&spec.with_env(given), argv.clone()).await.map_err(|error| match error {
            JailError::Denied(reason) => format!("the jail does not allow it: {reason}"),
            other => other.to_string(),
        })
    }

    async fn live_on_the_web(&self, probes: bool, life: &mut ConnectionLife) -> String {
        let web = match self.web().await {
            Ok(web) => Arc::new(web),
            Err(reason) => return reason,
        };
        let wire = Wire::Web(Arc::clone(&web));
        let session = Arc::new(ServerSession::new(wire, capabilities(&self.plan.expose)));
        let changed = Notify::new();
        let reason = tokio::select! {
            failure = self.serve(&session, probes, &changed, life) => {
                life.wants_login = matches!(failure, Failure::Login(_));
                failure.to_string()
            }
            () = web.lost.notified() => return "it has forgotten the session".to_owned(),
            () = self.stop.cancelled() => String::new(),
        };
        web.leave().await;
        reason
    }

    async fn web(&self) -> Result<Web, String> {
        let Endpoint::Http { url, headers, auth, within } = &self.plan.endpoint else {
            return Err("it is no HTTP server".to_owned());
        };
        let headers = credentials::headers(headers, &self.parts.secrets).await?;
        let (client, secrets) = (self.parts.client.clone(), self.parts.secrets.clone());
        let tokens = auth
            .as_ref()
            .map(|auth| Tokens::new(&self.plan.name, url, auth, &client, secrets.clone()));
        let tokens = tokens.transpose()?.map(Arc::new);
        let secrets = (secrets, Granted::of(&self.plan));
        Web::open(client, secrets, (url.as_str(), within.as_deref()), headers, tokens)
            .map_err(|failure| failure.to_string())
    }

    /// Meets the server, and publishes its tools whenever they change. Returns why that ended.
    async fn serve(
        &self,
        session: &Arc<ServerSession>,
        probes: bool,
        changed: &Notify,
        life: &mut ConnectionLife,
    ) -> Failure {
        let deadline = in_ms(BRIDGE_START_MS);
        let hello = match session.begin(deadline, probes).await {
            Ok(hello) => hello.cleaned(&self.parts.secrets.redactor()),
            Err(failure) => return failure,
        };
        life.met = true;
        if self.relayed.is_some() {
            self.session.send_replace(Some(Arc::clone(session)));
            self.publish(Arc::new([]), Exposed::default(), Some(hello));
            life.ready = Some(Instant::now());
            return std::future::pending().await;
        }
        let tools = match session.tools(&self.parts.secrets.redactor(), deadline).await {
            Ok(tools) => tools,
            Err(failure) => return failure,
        };
        let exposed = self.exposed(session, deadline).await;
        self.session.send_replace(Some(Arc::clone(session)));
        self.publish(tools, exposed, Some(hello));
        life.ready = Some(Instant::now());
        if let Err(failure) = session.listen().await {
            return failure;
        }
        self.look_again(session, changed, &mut life.calm).await
    }

    async fn look_again(
        &self,
        session: &ServerSession,
        changed: &Notify,
        calm: &mut Calm,
    ) -> Failure {
        let is_web = matches!(session.wire, Wire::Web(_));
        loop {
            match timeout(Duration::from_millis(BRIDGE_RELIST_MS), changed.notified()).await {
                Ok(()) => sleep(calm.pause(Instant::now())).await,
                Err(_) if is_web => {}
                Err(_) => continue,
            }
            let deadline = in_ms(BRIDGE_START_MS);
            match session.tools(&self.parts.secrets.redactor(), deadline).await {
                Ok(tools) => self.publish(tools, self.exposed(session, deadline).await, None),
                Err(failure) if is_web => return failure,
                // Its earlier tools stay: it answers, only not this.
                Err(failure) => {
                    let why = failure.told(&self.parts.secrets.redactor());
                    debug!(server = self.plan.name, "cannot list its tools: {why}");
                }
            }
        }
    }

    async fn exposed(&self, session: &ServerSession, deadline: Instant) -> Exposed {
        session.exposed(&self.plan.expose.kinds, &self.parts.secrets.redactor(), deadline).await
    }

    fn publish(&self, tools: Arc<[ToolDefinition]>, exposed: Exposed, hello: Option<Hello>) {
        self.offers.send_if_modified(|offers| {
            let shows = *offers.exposed != exposed;
            if shows {
                offers.exposed = Arc::new(exposed);
            }
            let is_new = offers.tools != tools || offers.generation == 0;
            let was_ready = offers.state == State::Ready;
            if is_new {
                offers.tools = tools;
                offers.generation += 1;
            }
            if let Some(hello) = hello {
                (offers.instructions, offers.server) = (hello.instructions, hello.server);
                offers.revision = hello.revision;
            }
            offers.state = State::Ready;
            is_new || shows || !was_ready
        });
    }
}

fn in_ms(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

/// Returns how long to wait after so many ends in a row. Servers that ended together do not all
/// begin together.
fn wait_after(ends: u32, relayed: Option<Restart>) -> Duration {
    if ends >= BRIDGE_ENDS_MAX {
        return Duration::from_millis(BRIDGE_CIRCUIT_MS);
    }
    let own = Restart { first_ms: BRIDGE_RESTART_MS, ceiling_ms: BRIDGE_RESTART_CEILING_MS };
    let Restart { first_ms, ceiling_ms } = relayed.unwrap_or(own);
    let doubled = first_ms.saturating_mul(2_u64.saturating_pow(ends.saturating_sub(1)));
    let wait = doubled.min(ceiling_ms);
    let [part] = random::bytes::<1>().unwrap_or_default();
    Duration::from_millis(wait / 2 + wait / 2 * u64::from(part) / u64::from(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_wants_its_lists_read_again_and_again_waits_ever_longer() {
        let (mut calm, start) = (Calm::default(), Instant::now());
        let pauses: Vec<Duration> = (0..20).map(|_| calm.pause(start)).collect();
        assert_eq!(pauses[0], Duration::from_millis(BRIDGE_RELIST_PAUSE_MS));
        assert_eq!(pauses[3], Duration::from_millis(8 * BRIDGE_RELIST_PAUSE_MS));
        assert_eq!(pauses[19], Duration::from_millis(BRIDGE_RELIST_MS));
        let calm_again = start + Duration::from_millis(BRIDGE_CALM_MS);
        assert_eq!(calm.pause(calm_again), pauses[0]);
    }

    #[test]
    fn waits_double_and_then_the_circuit_opens() {
        for (ends, most) in
            [(1, BRIDGE_RESTART_MS), (2, 2 * BRIDGE_RESTART_MS), (4, 8 * BRIDGE_RESTART_MS)]
        {
            let wait = wait_after(ends, None).as_millis();
            assert!((u128::from(most / 2)..=u128::from(most)).contains(&wait), "{ends}: {wait}");
        }
        for ends in [BRIDGE_ENDS_MAX, u32::MAX] {
            assert_eq!(wait_after(ends, None), Duration::from_millis(BRIDGE_CIRCUIT_MS));
        }
    }
}
