//! The live capabilities of one call: what the store of a guest instance holds.

use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use clawhost_core::error::Limit;
use clawhost_core::grants::Grants;
use clawhost_core::limits::{HOST_CALL_BYTES_MAX, RANDOM_BYTES_MAX, RESOURCES_MAX};
use clawhost_core::violation::Violation;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wasmtime::component::ResourceTable;
use wasmtime::{CallHook, CallHookHandler, StoreContextMut};
use wasmtime_wasi::p2::pipe::{MemoryInputPipe, MemoryOutputPipe};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::agent::AgentCtx;
use super::clock::{CallClock, Exceeded};
use super::fs::{FsCtx, FsView};
use super::http::HttpCtx;
use super::limiter::Limiter;
use super::log::CallLog;
use super::process::ProcessCtx;
use super::provider::ProviderCtx;
use super::secrets::CallSecrets;
use super::taped;
use super::tools::{CallTools, ToolsCtx};
use crate::progress::{Progress, ProgressSink};
use crate::recording::{LOST, Tape};

/// Variables by name.
type Env = Vec<(String, String)>;

/// Everything one guest instance can reach. Made for one call, dropped with it.
pub struct CallState {
    pub(crate) log: CallLog,
    pub(crate) clock: CallClock,
    pub(super) progress: Option<Progress>,
    pub(super) process: ProcessCtx,
    pub(super) provider: ProviderCtx,
    pub(super) agent: AgentCtx,
    pub(super) tools: ToolsCtx,
    /// Nothing where the profile grants none.
    pub(super) secrets: Option<Arc<CallSecrets>>,
    pub(super) fs: FsCtx,
    pub(super) table: ResourceTable,
    pub(crate) tape: Tape,
    limiter: Limiter,
    /// The guest's variables, and what else it is given of WASI: many a guest never asks for that.
    env: Env,
    wasi: Option<WasiCtx>,
    http: HttpCtx,
    http_ctx: WasiHttpCtx,
}

/// The parts of a [`CallState`] that a profile decides.
pub(super) struct StateParts {
    pub(super) fs: FsCtx,
    pub(super) http: HttpCtx,
    pub(super) process: ProcessCtx,
    pub(super) provider: ProviderCtx,
    pub(super) agent: AgentCtx,
    pub(super) tools: ToolsCtx,
    pub(super) secrets: Option<Arc<CallSecrets>>,
    pub(super) tape: Tape,
}

impl CallState {
    pub(super) fn new(
        grants: &Grants,
        parts: StateParts,
        clock: CallClock,
        log: CallLog,
        progress: Option<ProgressSink>,
    ) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES_MAX);
        let env = env_of(grants, parts.secrets.as_deref(), &parts.tape);
        // A recording begins with what is made here, whatever the guest asks for.
        let wasi = parts.tape.is_on().then(|| wasi_of(&env, &log, &parts.tape).build());
        Self {
            log,
            clock,
            progress: progress.map(Progress::new),
            process: parts.process,
            provider: parts.provider,
            agent: parts.agent,
            tools: parts.tools,
            secrets: parts.secrets,
            fs: parts.fs,
            tape: parts.tape,
            table,
            limiter: Limiter::new(grants.limits.memory_bytes),
            env,
            wasi,
            http: parts.http,
            http_ctx: WasiHttpCtx::new(),
        }
    }

    /// Says who calls: what is counted and kept for each agent is so for this one.
    pub fn called_by(&mut self, principal: &str) {
        self.agent.set_agent(principal);
    }

    /// Lets the guest make calls of its own by `caller`, as far as its profile grants them.
    pub(crate) fn calling_by(&mut self, caller: Arc<dyn CallTools>) {
        self.tools.set_caller(caller);
    }

    /// Makes this the call of a command, with these arguments after its name and this standard
    /// input; what it writes to standard output goes to `stdout` and not to the log.
    pub(crate) fn for_command(
        &mut self,
        grants: &Grants,
        args: &[String],
        stdin: String,
        stdout: MemoryOutputPipe,
    ) {
        self.env = env_of(grants, self.secrets.as_deref(), &self.tape);
        let mut wasi = wasi_of(&self.env, &self.log, &self.tape);
        let wasi = wasi.args(args).stdin(MemoryInputPipe::new(stdin)).stdout(stdout);
        self.wasi = Some(wasi.build());
    }

    /// Puts this state into a store that meters, limits and yields as a call must.
    ///
    /// # Errors
    /// Only where the engine was not set up for fuel.
    pub fn into_store(self, engine: &wasmtime::Engine) -> wasmtime::Result<wasmtime::Store<Self>> {
        let fuel = self.clock.fuel_budget();
        let mut store = wasmtime::Store::new(engine, self);
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(HOST_CALL_BYTES_MAX);
        store.call_hook_async(HostCallWatch);
        #[cfg(feature = "wasi-p3")]
        super::p3::bound(&mut store);
        store.set_fuel(fuel)?;
        store.fuel_async_yield_interval(Some(clawhost_core::limits::FUEL_YIELD_INTERVAL))?;
        Ok(store)
    }

    /// Answers `of` with what `live` returns, and keeps that; or plays what was kept. An answer that the
    /// recording does not have is an error that `lost` makes.
    pub(super) async fn taped<T, E>(
        &mut self,
        of: &'static str,
        lost: impl FnOnce(String) -> E,
        live: impl AsyncFnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E>
    where
        Result<T, E>: Serialize + DeserializeOwned,
    {
        if let Some(played) = self.tape.played(of, || Err(lost(LOST.to_owned()))) {
            return played;
        }
        let answer = live(self).await;
        self.tape.keep(of, &answer);
        answer
    }

    fn enter_host_call(&mut self, fuel_left: u64) -> Result<(), Exceeded> {
        if self.tools.is_spent() {
            return Err(Exceeded::Calls);
        }
        let moved = [&mut self.provider.work, &mut self.agent.work, &mut self.tools.work];
        let moved = moved.into_iter().map(std::mem::take);
        let work = moved.fold(self.fs.take_work(), u64::saturating_add);
        self.clock.enter_host_call(self.tape.work(work), fuel_left)
    }

    /// Starts the call's own clock, after instantiation.
    pub fn start_clock(
        store: &mut wasmtime::Store<Self>,
        clock: CallClock,
    ) -> wasmtime::Result<()> {
        store.data_mut().clock = clock;
        store.data_mut().http.set_deadline(clock.ends_at());
        store.data_mut().process.set_deadline(clock.ends_at());
        store.data_mut().provider.set_deadline(clock.ends_at());
        store.set_fuel(clock.fuel_budget())?;
        store.fuel_async_yield_interval(Some(clawhost_core::limits::FUEL_YIELD_INTERVAL))
    }

    /// Returns what the guest tried and was refused, for the audit record.
    pub fn violations(&self) -> Vec<Violation> {
        let mut all = self.fs.violations().to_vec();
        all.extend(self.http.violations());
        all.extend_from_slice(self.process.violations());
        let rest = self.provider.violation().into_iter().chain(self.agent.violations());
        all.extend(rest.chain(self.tools.violation().cloned()).map(Violation::from));
        all
    }

    /// Returns where its requests were let out to, for the audit record.
    pub fn egress(&self) -> Vec<String> {
        self.http.reached().map(str::to_owned).collect()
    }

    /// Says whether its last exchange over HTTP broke off, which another attempt may not.
    pub fn broke_off(&self) -> bool {
        self.http.broke_off()
    }

    /// Returns the name of the file quota that the guest ran into, if it did.
    pub fn exceeded_quota(&self) -> Option<Limit> {
        self.fs.exceeded().map(super::fs::Limit::named)
    }

    /// Returns why the call got no completion from a provider, or no place for a program, where
    /// it asked for one.
    pub fn backend_failure(&self) -> Option<&clawhost_core::error::CallError> {
        self.provider.failed().or_else(|| self.process.failed())
    }

    pub(crate) fn fs_view(&mut self) -> FsView<'_> {
        FsView { ctx: &mut self.fs, table: &mut self.table }
    }
}

/// Returns the variables of a guest's environment.
fn env_of(grants: &Grants, secrets: Option<&CallSecrets>, tape: &Tape) -> Env {
    let env = grants.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let values = secrets.into_iter().flat_map(CallSecrets::env);
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    tape.now("environment", Vec::new(), || env.chain(values).map(owned).collect())
}

/// What every guest is given of WASI: its environment, and no arguments, input or network. What it writes to its
/// streams goes to the log.
fn wasi_of(env: &Env, log: &CallLog, tape: &Tape) -> WasiCtxBuilder {
    let mut wasi = WasiCtx::builder();
    taped::tape(&mut wasi, tape);
    wasi.envs(env)
        .stdout(log.streams())
        .stderr(log.streams())
        .max_random_size(RANDOM_BYTES_MAX)
        .allow_tcp(false)
        .allow_udp(false);
    wasi
}

/// Looks at the clock on the way into every host call, and lets others run after long ones.
///
/// Fuel counts only a guest's own instructions: without this, a loop of host calls would hold
/// its thread until its deadline.
struct HostCallWatch;

impl CallHookHandler<CallState> for HostCallWatch {
    // As `async_trait` writes it, but that what has nothing to wait for, which is nearly all, allocates nothing.
    fn handle_call_event<'a, 'b, 'c>(
        &'a self,
        mut store: StoreContextMut<'b, CallState>,
        event: CallHook,
    ) -> Pin<Box<dyn Future<Output = wasmtime::Result<()>> + Send + 'c>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        match watched(&mut store, event) {
            Ok(false) => Box::pin(poll_fn(|_| Poll::Ready(Ok(())))),
            Ok(true) => Box::pin(async move {
                tokio::task::yield_now().await;
                store.data_mut().clock.yielded();
                Ok(())
            }),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }
}

/// Looks at the clock, and says whether others should run first.
fn watched(store: &mut StoreContextMut<'_, CallState>, event: CallHook) -> wasmtime::Result<bool> {
    match event {
        CallHook::CallingHost => {
            let fuel_left = store.get_fuel()?;
            store.data_mut().enter_host_call(fuel_left)?;
            Ok(false)
        }
        CallHook::ReturningFromHost => match store.data().tape.parted() {
            // What was answered since is made up.
            Some(parted) => Err(wasmtime::Error::msg(parted)),
            None => Ok(store.data().clock.owes_yield()),
        },
        CallHook::CallingWasm | CallHook::ReturningFromWasm => Ok(false),
    }
}

clawhost_core::shows!(CallState { log, clock });

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let make = || wasi_of(&self.env, &self.log, &self.tape).build();
        WasiCtxView { ctx: self.wasi.get_or_insert_with(make), table: &mut self.table }
    }
}

impl WasiHttpView for CallState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http_ctx, table: &mut self.table, hooks: &mut self.http }
    }
}
