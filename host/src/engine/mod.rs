//! The engine: reads, compiles, caches and introspects components.
//!
//! Deliberately absent: calls. `exec::wasm` makes them, from what [`Engine::load`] returns.

mod cache;
pub(crate) mod check;
mod describe;
pub(crate) mod kinds;
mod schemas;
mod settings;

use std::sync::Arc;

use clawhost_core::catalog::ToolDefinition;
use clawhost_core::limits::NESTING_DEPTH_MAX;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::component::{Component, InstancePre, Linker};

pub use cache::CodeCache;
pub use schemas::Schemas;
pub use settings::Allocator;
pub(crate) use settings::given_back;

use crate::sandbox::CallState;
use crate::sandbox::bindings::GuestIndices;
use cache::Entry;
use check::Checked;
use kinds::{Kind, Outline};

/// Components that are compiled at the same time.
const COMPILING_MAX: usize = 2;
/// How much lower than the host's own the priority of a compiling thread is.
const COMPILING_NICE: i32 = 10;

/// A wasmtime engine, the linker of every tool, and the cache of compiled code.
pub struct Engine {
    inner: wasmtime::Engine,
    linker: Linker<CallState>,
    allocator: Allocator,
    cache: Option<CodeCache>,
    schemas: Schemas,
    compiling: Arc<Semaphore>,
}

/// A component that is compiled, linked and has said what it offers.
pub struct Loaded {
    /// `sha256:…` of the component's binary.
    pub digest: String,
    /// Its size in bytes, in binary form.
    pub size_bytes: usize,
    /// What it imports, with versions.
    pub imports: Vec<String>,
    /// The tools it offers; of a command, one whose name is its file's to give.
    pub definitions: Vec<ToolDefinition>,
    pub(crate) kind: Kind,
    pub(crate) pre: InstancePre<CallState>,
}

/// Why a component cannot be used; the text names the reason and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// It is the component: it stays unusable until it is changed.
    #[error("{0}")]
    Unusable(String),
    /// It is the moment: the host is busy, or a file cannot be read. Try again.
    #[error("{0}")]
    Passing(String),
}

impl From<String> for LoadError {
    fn from(reason: String) -> Self {
        Self::Unusable(reason)
    }
}

impl Loaded {
    /// Returns the tools it offers in a file, or under an address, of this name.
    pub fn definitions_as(&self, stem: &str) -> Vec<ToolDefinition> {
        match self.kind {
            Kind::Command(_) => vec![kinds::command(&kinds::tool_name(stem))],
            _ => self.definitions.clone(),
        }
    }

    /// Returns why functions that it exports are no tools, one sentence each.
    pub fn left_out(&self) -> &[String] {
        match &self.kind {
            Kind::Functions(functions) => functions.left_out(),
            _ => &[],
        }
    }
}

/// The right to read, compile and describe one component. It goes along with the work, onto
/// its thread too: work that nobody waits for any more still counts until it ends.
pub(crate) type Turn = OwnedSemaphorePermit;

impl Engine {
    /// Returns an engine for `calls_max` calls at once, with compiled code kept in `cache`.
    ///
    /// # Errors
    /// The system cannot run WebAssembly.
    pub fn new(calls_max: usize, cache: Option<CodeCache>) -> wasmtime::Result<Self> {
        // Describing takes an instance too, and must neither wait for a call nor stop one.
        // A guest keeps its instance while calls of its own run: each running call may be made by one, and
        // a single place has room for a whole chain.
        let instances_max = calls_max.saturating_mul(2) + NESTING_DEPTH_MAX + COMPILING_MAX;
        let (inner, allocator) = settings::engine(instances_max)?;
        let linker = crate::sandbox::link(&inner)?;
        let compiling = Arc::new(Semaphore::new(COMPILING_MAX));
        let schemas = Schemas::default();
        Ok(Self { inner, linker, allocator, cache, schemas, compiling })
    }

    /// Returns where instances get their memory.
    pub fn allocator(&self) -> Allocator {
        self.allocator
    }

    /// Returns the compiled schemas of what it loaded.
    pub fn schemas(&self) -> &Schemas {
        &self.schemas
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.inner
    }

    /// Reads `bytes` (binary or text form), compiles or takes it from the cache, links it
    /// and asks it what it offers. Whether a profile grants what it imports is decided for
    /// each of its tools, when the tool is bound.
    ///
    /// # Errors
    /// [`LoadError`]: not a component, too large, of another world, an import that no
    /// profile can grant, or a description that fails or breaks a rule.
    pub async fn load(self: &Arc<Self>, bytes: Vec<u8>) -> Result<Arc<Loaded>, LoadError> {
        let turn = self.turn().await?;
        self.load_in(turn, move || Ok(bytes)).await.map(|(loaded, _)| loaded)
    }

    /// Waits until one more component may be worked on.
    ///
    /// # Errors
    /// None that occurs: the turns are never closed.
    pub(crate) async fn turn(&self) -> Result<Turn, LoadError> {
        let turn = Arc::clone(&self.compiling).acquire_owned().await;
        turn.map_err(|error| LoadError::Passing(error.to_string()))
    }

    /// As [`Engine::load`], of the bytes that `read` returns, which runs on the compiling
    /// thread: no file is held in memory while it waits for its turn.
    ///
    /// # Errors
    /// As [`Engine::load`], and what `read` fails with.
    pub(crate) async fn load_in(
        self: &Arc<Self>,
        turn: Turn,
        read: impl FnOnce() -> Result<Vec<u8>, LoadError> + Send + 'static,
    ) -> Result<(Arc<Loaded>, Turn), LoadError> {
        let this = Arc::clone(self);
        let (compiled, turn) = background(turn, move || this.compile(&read()?)).await?;
        let mut compiled = compiled?;
        let (pre, kind) = self.link(&compiled.component, compiled.outline)?;
        let (definitions, turn) = match compiled.known.take() {
            Some(definitions) => (definitions, turn),
            None => {
                let definitions = match &kind {
                    Kind::Tool(indices) => describe::describe(&self.inner, &pre, indices).await?,
                    told => told.definitions(),
                };
                let this = Arc::clone(self);
                let (name, component) = (compiled.cache_name, compiled.component);
                background(turn, move || {
                    this.remember(&name, &component, &definitions);
                    give_memory_back();
                    definitions
                })
                .await?
            }
        };
        let Compiled { digest, size_bytes, imports, .. } = compiled;
        Ok((Arc::new(Loaded { digest, size_bytes, imports, definitions, kind, pre }), turn))
    }

    fn compile(&self, bytes: &[u8]) -> Result<Compiled, LoadError> {
        if let Some(digest) = check::component_digest(bytes)
            && let cache_name = self.cache_name(&digest)
            && let Some((component, known)) = self.cached(&cache_name)
        {
            // It was checked when it was put there, by this version of the host, and read to the end.
            let checked = Checked { digest, size_bytes: bytes.len(), ..Checked::default() };
            return self.outlined(checked, cache_name, component, Some(known));
        }
        let checked = check::component(bytes)?;
        // What is compiled of a preview-1 module depends on the adapter as well.
        let compiled_digest =
            checked.is_wrapped.then(|| clawhost_core::digest::of_bytes(&checked.binary));
        let cache_name = self.cache_name(compiled_digest.as_deref().unwrap_or(&checked.digest));
        let (component, known) = match self.cached(&cache_name) {
            Some((component, definitions)) => (component, Some(definitions)),
            None => (self.cranelift(&checked.binary)?, None),
        };
        self.outlined(checked, cache_name, component, known)
    }

    fn outlined(
        &self,
        checked: Checked,
        cache_name: String,
        component: Component,
        known: Option<Vec<ToolDefinition>>,
    ) -> Result<Compiled, LoadError> {
        let Checked { digest, size_bytes, docs, .. } = checked;
        let outline = kinds::outline(&self.inner, &component, &docs)?;
        let imports = component.component_type();
        let imports = imports.imports(&self.inner).map(|(name, _)| name.to_owned()).collect();
        Ok(Compiled { digest, size_bytes, cache_name, imports, component, outline, known })
    }

    fn cached(&self, name: &str) -> Option<(Component, Vec<ToolDefinition>)> {
        self.restore(self.cache.as_ref()?.get(name)?)
    }

    fn cranelift(&self, binary: &[u8]) -> Result<Component, LoadError> {
        Component::from_binary(&self.inner, binary)
            .map_err(|error| LoadError::Unusable(format!("it does not compile: {error:#}")))
    }

    fn restore(&self, entry: Entry) -> Option<(Component, Vec<ToolDefinition>)> {
        #[expect(
            unsafe_code,
            reason = "compiled code is loaded from the cache, as wasmtime offers only unsafely"
        )]
        // SAFETY: `deserialize` runs what it is given. The bytes were just authenticated with
        // the host's own key, so they are what this host's Cranelift wrote for this engine.
        let component = unsafe { Component::deserialize(&self.inner, entry.code()) };
        component
            .inspect_err(|error| tracing::warn!("cached code is of another engine: {error:#}"))
            .ok()
            .map(|component| (component, entry.definitions))
    }

    fn link(
        &self,
        component: &Component,
        outline: Outline,
    ) -> Result<(InstancePre<CallState>, Kind), LoadError> {
        let pre = self.linker.instantiate_pre(component).map_err(|error| {
            LoadError::Unusable(format!("its imports do not fit what the host offers: {error:#}"))
        })?;
        let kind = match outline {
            Outline::Settled(kind) => kind,
            Outline::Tool => Kind::Tool(GuestIndices::new(&pre).map_err(|error| {
                LoadError::Unusable(format!(
                    "it is of another world: a tool exports `claw:tool/tool@0.1.0` ({error:#})"
                ))
            })?),
        };
        Ok((pre, kind))
    }

    fn remember(&self, name: &str, component: &Component, definitions: &[ToolDefinition]) {
        let Some(cache) = &self.cache else { return };
        match component.serialize() {
            Ok(code) => cache.put(name, definitions, &code),
            Err(error) => tracing::warn!("compiled code cannot be cached: {error:#}"),
        }
    }

    /// Names an entry by content and by everything about the engine that shapes its code.
    fn cache_name(&self, digest: &str) -> String {
        use std::hash::{Hash as _, Hasher as _};
        let mut hasher = std::hash::DefaultHasher::new();
        self.inner.precompile_compatibility_hash().hash(&mut hasher);
        env!("CARGO_PKG_VERSION").hash(&mut hasher);
        let digest = digest.strip_prefix("sha256:").unwrap_or(digest);
        format!("{digest}-{:016x}", hasher.finish())
    }
}

struct Compiled {
    digest: String,
    size_bytes: usize,
    cache_name: String,
    imports: Vec<String>,
    component: Component,
    outline: Outline,
    known: Option<Vec<ToolDefinition>>,
}

/// Runs `work` on a thread of its own, at low priority: compiling never starves calls. The
/// turn comes back with the result, or ends with the work where nobody waits for it.
///
/// # Errors
/// No thread can be had, or `work` panics.
pub(crate) async fn background<T: Send + 'static>(
    turn: Turn,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<(T, Turn), LoadError> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("compile".to_owned())
        .spawn(move || {
            lower_priority();
            // The receiver is gone where the load was cancelled; the result is then unused.
            drop(sender.send((work(), turn)));
        })
        .map_err(|error| LoadError::Passing(format!("no thread to compile on: {error}")))?;
    let failed = || LoadError::Unusable("the compiler failed on this component".to_owned());
    receiver.await.map_err(|_| failed())
}

#[cfg(target_os = "linux")]
fn lower_priority() {
    // On Linux priorities are per thread. Failing to lower one is harmless.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), COMPILING_NICE);
}

#[cfg(not(target_os = "linux"))]
fn lower_priority() {
    let _ = COMPILING_NICE;
}

/// Gives back to the system what compiling took. The allocator would keep it for ever: tens of MiB.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn give_memory_back() {
    #[expect(unsafe_code, reason = "libc has it only unsafely")]
    // SAFETY: it takes no pointer, and any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_memory_back() {}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("allocator", &self.allocator).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded")
            .field("digest", &self.digest)
            .field("imports", &self.imports)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_nobody_waits_for_keeps_its_turn_until_it_ends() {
        let engine = Engine::new(1, None).unwrap();
        let free = || engine.compiling.available_permits();
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let turn = engine.turn().await.unwrap();
        let work = tokio::spawn(background(turn, move || {
            started.send(()).unwrap();
            wait.recv().unwrap_err();
        }));
        has_started.await.unwrap();
        work.abort();
        work.await.unwrap_err();
        assert_eq!(free(), COMPILING_MAX - 1);
        drop(end);
        // Both turns at once are there only after the work.
        let all = u32::try_from(COMPILING_MAX).unwrap();
        drop(engine.compiling.acquire_many(all).await.unwrap());
    }
}
