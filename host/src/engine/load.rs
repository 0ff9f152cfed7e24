//! The engine itself, and how a component becomes one that can be called.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use clawhost_core::limits::NESTING_DEPTH_MAX;
use tokio::sync::Semaphore;

use super::cache::CodeCache;
use super::check::{self, Checked};
use super::compiler::{self, Compiler, NoCode};
use super::kinds::{self, Kind};
use super::loaded::{About, Code, Loaded, Source};
use super::runtime::Runtime;
use super::schemas::Schemas;
use super::settings::Allocator;
use super::turn::{Scratch, Turn, background};
use super::{describe, settings};

/// Components that are compiled at the same time.
const COMPILING_MAX: usize = 2;

/// A wasmtime engine, the linker of every tool, and the cache of compiled code.
pub struct Engine {
    plain: Runtime,
    /// For components of WASI 0.3, from the first one on: what runs tasks beside each other would make the host
    /// calls of all others dearer, and hang them on the newest part of wasmtime.
    beside: OnceLock<Runtime>,
    instances_max: usize,
    allocator: Allocator,
    /// Of everything but the component that shapes its code: part of the names in the cache.
    shape: u64,
    pub(super) cache: Option<CodeCache>,
    /// None where the host compiles by itself.
    pub(super) compiler: Option<Compiler>,
    schemas: Schemas,
    compiling: Arc<Semaphore>,
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
        let (engine, allocator) = settings::engine(instances_max, false)?;
        Ok(Self {
            shape: shape(&engine),
            plain: Runtime { linker: crate::sandbox::link(&engine)?, engine },
            beside: OnceLock::new(),
            instances_max,
            allocator,
            cache,
            compiler: None,
            schemas: Schemas::default(),
            compiling: Arc::new(Semaphore::new(COMPILING_MAX)),
        })
    }

    /// Returns the same engine, which has an open program compile, in a jail, where the system has one: a
    /// `clawhost` of the same version. What it writes runs in this process.
    #[must_use]
    pub fn compiled_by(mut self, program: Option<File>) -> Self {
        self.compiler = program.map(Compiler::new);
        self
    }

    /// Returns where instances get their memory.
    pub fn allocator(&self) -> Allocator {
        self.allocator
    }

    /// Returns the folder in which compiled code is kept.
    pub(crate) fn code_folder(&self) -> Option<&Path> {
        self.cache.as_ref().map(CodeCache::folder)
    }

    /// Returns the compiled schemas of what it loaded.
    pub fn schemas(&self) -> &Schemas {
        &self.schemas
    }

    /// Returns what components run on, or those of WASI 0.3.
    pub(super) fn runtime(&self, is_p3: bool) -> Result<&Runtime, LoadError> {
        if !is_p3 {
            return Ok(&self.plain);
        }
        if let Some(made) = self.beside.get() {
            return Ok(made);
        }
        let make = || {
            let (engine, _) = settings::engine(self.instances_max, true)?;
            Ok(Runtime { linker: crate::sandbox::link_p3(&engine)?, engine })
        };
        let made =
            make().map_err(|error: wasmtime::Error| LoadError::Passing(error.to_string()))?;
        Ok(self.beside.get_or_init(|| made))
    }

    /// Reads `bytes` (binary or text form), compiles or takes it from the cache, links it
    /// and asks it what it offers. Its code is there then. Whether a profile grants what it imports is
    /// decided for each of its tools, when the tool is bound.
    ///
    /// # Errors
    /// [`LoadError`]: not a component, too large, of another world, an import that no
    /// profile can grant, or a description that fails or breaks a rule.
    pub async fn load(self: &Arc<Self>, bytes: Vec<u8>) -> Result<Arc<Loaded>, LoadError> {
        let turn = self.turn().await?;
        let source = Source::new(move || Ok(bytes.clone().into()));
        let (loaded, _) = self.load_in(turn, source).await?;
        loaded.code().await?;
        Ok(loaded)
    }

    /// Waits until one more component may be worked on.
    ///
    /// # Errors
    /// None that occurs: the turns are never closed.
    pub(crate) async fn turn(&self) -> Result<Turn, LoadError> {
        let turn = Arc::clone(&self.compiling).acquire_owned().await;
        turn.map_err(|error| LoadError::Passing(error.to_string()))
    }

    /// Returns what the cache knows of a source that is known by its digest, or the source: a short read.
    pub(crate) fn listed(self: &Arc<Self>, source: Source) -> Result<Arc<Loaded>, Source> {
        match source.digest().map(|digest| self.cache_name(digest)) {
            Some(name) => self.find(name, source).map_err(|(_, source)| source),
            None => Err(source),
        }
    }

    fn find(
        self: &Arc<Self>,
        name: String,
        source: Source,
    ) -> Result<Arc<Loaded>, (String, Source)> {
        match self.cache.as_ref().and_then(|cache| cache.get(&name)) {
            Some(entry) => Ok(Arc::new(Loaded::listed(self, name, entry, source))),
            None => Err((name, source)),
        }
    }

    /// As [`Engine::load`], of a source that is read on the compiling thread: no file is held in memory
    /// while it waits for its turn. Code that is in the cache is not loaded yet.
    ///
    /// # Errors
    /// As [`Engine::load`], and what the source cannot be read for.
    pub(crate) async fn load_in(
        self: &Arc<Self>,
        turn: Turn,
        source: Source,
    ) -> Result<(Arc<Loaded>, Turn), LoadError> {
        let this = Arc::clone(self);
        let (found, turn) = background(turn, move || this.found(source)).await?;
        let (name, source, checked, scratch) = match found? {
            Found::Listed(loaded) => return Ok((loaded, turn)),
            Found::Checked(name, source, checked, scratch) => (name, source, checked, scratch),
        };
        let (mut compiled, turn) = self.compiled(turn, *checked).await?;
        if let Kind::Tool(indices) = &compiled.linked.kind {
            let described = describe::describe(&compiled.linked.pre, indices);
            compiled.about.definitions = described.await?;
        }
        let this = Arc::clone(self);
        background(turn, move || {
            let _scratch = scratch;
            this.kept(name, source, compiled)
        })
        .await
    }

    /// Returns what was compiled as every later start has it, whose code is mapped by its first call and was never
    /// copied; or, where it could not be kept, with the code that there is.
    fn kept(self: &Arc<Self>, name: String, source: Source, compiled: Compiled) -> Arc<Loaded> {
        let Compiled { about, code, linked } = compiled;
        let listed = match self.remember(&name, &code, &about) {
            true => self.find(name, source).ok(),
            false => None,
        };
        listed.unwrap_or_else(|| Arc::new(Loaded::compiled(self, about, linked)))
    }

    fn found(self: &Arc<Self>, source: Source) -> Result<Found, LoadError> {
        let scratch = Scratch;
        let (digest, bytes) = source.identity()?;
        let (name, source) = match self.find(self.cache_name(&digest), source) {
            Ok(loaded) => return Ok(Found::Listed(loaded)),
            Err(none) => none,
        };
        let bytes = bytes.map_or_else(|| source.read(), Ok)?;
        Ok(Found::Checked(name, source, Box::new(check::component(&bytes)?), scratch))
    }

    /// Compiles and links. What a component of our own world offers is not asked here.
    pub(super) async fn compiled(
        self: &Arc<Self>,
        turn: Turn,
        checked: Checked,
    ) -> Result<(Compiled, Turn), LoadError> {
        let code = match &self.compiler {
            Some(compiler) => compiler.code(&checked.binary, checked.is_p3).await.map(Some),
            None => Ok(None),
        };
        let code = code.or_else(NoCode::left_to_the_host)?;
        let this = Arc::clone(self);
        let (compiled, turn) = background(turn, move || this.linked(checked, code)).await?;
        Ok((compiled?, turn))
    }

    /// Links what was compiled to `code`, and compiles it where there is none.
    fn linked(&self, checked: Checked, code: Option<Vec<u8>>) -> Result<Compiled, LoadError> {
        let Checked { binary, digest, size_bytes, docs, is_p3 } = checked;
        let runtime = self.runtime(is_p3)?;
        let code = code.map_or_else(|| runtime.engine.precompile_component(&binary), Ok);
        let made = code.and_then(|code| Ok((runtime.restore(&code)?, code)));
        let (component, code) = made.map_err(|error| compiler::does_not(&format!("{error:#}")))?;
        let linked = runtime.linked(&component, &docs)?;
        let imports = component.component_type();
        let about = About {
            digest,
            size_bytes,
            imports: imports.imports(&runtime.engine).map(|(name, _)| name.to_owned()).collect(),
            definitions: linked.kind.definitions(),
            left_out: linked.kind.left_out().to_vec(),
            world: linked.kind.world(),
            is_p3,
        };
        Ok(Compiled { about, code, linked })
    }

    /// Keeps what was compiled, if all its schemas can be too: they are not checked again where they are listed.
    /// Says whether it was.
    pub(super) fn remember(&self, name: &str, code: &[u8], about: &About) -> bool {
        let Some(cache) = &self.cache else { return false };
        let all = about.definitions.iter();
        let mut all = all.flat_map(|tool| [Some(&tool.input_schema), tool.output_schema.as_ref()]);
        let are_schemas = all.all(|schema| schema.is_none_or(|of| self.schemas.get(of).is_ok()));
        are_schemas && cache.put(name, about, code)
    }

    /// Names an entry by what was read, and by everything else that shapes its code.
    pub(super) fn cache_name(&self, digest: &str) -> String {
        let digest = digest.strip_prefix("sha256:").unwrap_or(digest);
        format!("{digest}-{:016x}", self.shape)
    }
}

fn shape(engine: &wasmtime::Engine) -> u64 {
    use std::hash::{Hash as _, Hasher as _};
    let mut hasher = std::hash::DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    cfg!(feature = "wasi-p3").hash(&mut hasher);
    kinds::preview1::adapter_hash().as_bytes().hash(&mut hasher);
    hasher.finish()
}

enum Found {
    Listed(Arc<Loaded>),
    /// What there was not, under the name that it will have in the cache.
    Checked(String, Source, Box<Checked>, Scratch),
}

/// What was just compiled.
pub(super) struct Compiled {
    pub(super) about: About,
    /// As it is kept.
    pub(super) code: Vec<u8>,
    pub(super) linked: Code,
}

clawhost_core::shows!(Engine { allocator });

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
