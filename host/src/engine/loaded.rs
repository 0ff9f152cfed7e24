//! What is known of a component, and its code, which is loaded at the first call.
//!
//! What a list of tools needs (names, schemas, imports) was found out when the component was compiled, and
//! lies in the cache beside its code under the same authentication. So a host starts without the code, and
//! a tool that nobody calls takes no memory for it. Deliberately absent: giving code back.

use std::borrow::Cow;
use std::sync::Arc;

use clawhost_core::catalog::ToolDefinition;
use clawhost_core::digest;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use wasmtime::component::InstancePre;

use super::cache::Entry;
use super::check::{self, Checked};
use super::kinds::docs::Docs;
use super::kinds::{self, Kind, World};
use super::turn::{Scratch, background};
use super::{Engine, LoadError};
use crate::offload;
use crate::sandbox::CallState;

type Bytes = Cow<'static, [u8]>;
type Read = dyn Fn() -> Result<Bytes, LoadError> + Send + Sync;

/// Where a component comes from. It is read where it has to be compiled: before it is listed, or at a call
/// for which its compiled code is not there any more.
pub(crate) struct Source {
    digest: Option<String>,
    read: Box<Read>,
}

/// What a component says of itself and what was found out about it, in the cache beside its code.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct About {
    /// `sha256:…` of the component's binary.
    pub digest: String,
    /// Its size in bytes, in binary form.
    pub size_bytes: usize,
    /// What it imports, with versions.
    pub imports: Vec<String>,
    /// The tools it offers; of a command, one whose name is its file's to give.
    pub definitions: Vec<ToolDefinition>,
    /// Why functions that it exports are no tools, one sentence each.
    pub left_out: Vec<String>,
    pub(crate) world: World,
    /// It is of WASI 0.3.
    pub(crate) is_p3: bool,
}

/// A component that was compiled and linked once, and has said what it offers.
pub struct Loaded {
    engine: Arc<Engine>,
    about: About,
    /// Only what is known of it was looked at, and its code was not.
    listed: Option<Listed>,
    code: OnceCell<Code>,
}

/// Where the code is that belongs to what is known.
struct Listed {
    /// Its name in the cache.
    name: String,
    hash: blake3::Hash,
    /// Until the code is there.
    source: Mutex<Option<Source>>,
}

/// The code of a component, linked.
pub(crate) struct Code {
    pub(crate) kind: Kind,
    pub(crate) pre: InstancePre<CallState>,
}

impl Source {
    /// A file, or whatever else has to be read to know what it is.
    pub(crate) fn new(read: impl Fn() -> Result<Bytes, LoadError> + Send + Sync + 'static) -> Self {
        Self { digest: None, read: Box::new(read) }
    }

    /// What is known by its digest, which is `sha256:…` of what is read.
    pub(crate) fn known(self, digest: &str) -> Self {
        Self { digest: Some(digest.to_owned()), ..self }
    }

    /// Returns what it is known by, and its bytes where they had to be read for that.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn identity(&self) -> Result<(String, Option<Bytes>), LoadError> {
        if let Some(digest) = &self.digest {
            return Ok((digest.clone(), None));
        }
        let bytes = self.read()?;
        Ok((digest::of_bytes(&bytes), Some(bytes)))
    }

    pub(super) fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    pub(super) fn read(&self) -> Result<Bytes, LoadError> {
        (self.read)()
    }
}

impl std::ops::Deref for Loaded {
    type Target = About;

    fn deref(&self) -> &About {
        &self.about
    }
}

impl Loaded {
    /// What the cache knows, without the code.
    pub(super) fn listed(
        engine: &Arc<Engine>,
        name: String,
        Entry { about, code, .. }: Entry,
        source: Source,
    ) -> Self {
        let listed = Some(Listed { name, hash: code, source: Mutex::new(Some(source)) });
        let (engine, code) = (Arc::clone(engine), OnceCell::new());
        Self { engine, about, listed, code }
    }

    /// What was just compiled, and is in no cache.
    pub(super) fn compiled(engine: &Arc<Engine>, about: About, code: Code) -> Self {
        let (engine, code) = (Arc::clone(engine), OnceCell::new_with(Some(code)));
        Self { engine, about, listed: None, code }
    }

    /// Returns the tools it offers in a file, or under an address, of this name.
    pub fn definitions_as(&self, stem: &str) -> Vec<ToolDefinition> {
        match self.world {
            World::Command => vec![kinds::command(&kinds::tool_name(stem))],
            World::Functions | World::Tool => self.definitions.clone(),
        }
    }

    /// Says whether all that it says was checked when it was put into the cache.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed.is_some()
    }

    /// Returns its code where a call before has loaded it.
    pub(crate) fn code_at_hand(&self) -> Option<&Code> {
        self.code.get()
    }

    /// Returns its code: from the cache, or compiled anew where what lies there is not the code that belongs
    /// to what was listed.
    ///
    /// # Errors
    /// It has to be compiled, and its source is another one by now or cannot be read.
    pub(crate) async fn code(self: &Arc<Self>) -> Result<&Code, LoadError> {
        if self.code.get().is_none() {
            let this = Arc::clone(self);
            // A task of its own: what was begun is not lost with the call that began it.
            let work = tokio::spawn(async move {
                let done = this.code.get_or_try_init(|| this.prepared()).await.map(|_| ());
                done.inspect(|()| drop(this.listed.as_ref().map(|of| of.source.lock().take())))
            });
            work.await.map_err(|error| LoadError::Passing(error.to_string()))??;
        }
        self.code.get().ok_or_else(gone)
    }

    async fn prepared(self: &Arc<Self>) -> Result<Code, LoadError> {
        let listed = self.listed.as_ref().ok_or_else(gone)?;
        if let Some(code) = offload::blocking(true, || self.restored(listed))? {
            return Ok(code);
        }
        tracing::warn!("the compiled code of {} is lost; compiling it anew", self.digest);
        self.recompiled(listed).await
    }

    /// Returns its code from the cache, or none where that is not there any more.
    fn restored(&self, listed: &Listed) -> Result<Option<Code>, LoadError> {
        let _scratch = Scratch;
        let cache = self.engine.cache.as_ref();
        let code = cache.and_then(|cache| cache.code(&listed.name, listed.hash));
        let runtime = self.engine.runtime(self.is_p3)?;
        let anew = |error: &_| tracing::warn!("cached code cannot be used: {error:#}");
        let component = code.and_then(|code| runtime.cached(&code).inspect_err(anew).ok());
        component.map(|component| runtime.linked(&component, &Docs::default())).transpose()
    }

    async fn recompiled(self: &Arc<Self>, listed: &Listed) -> Result<Code, LoadError> {
        let (this, turn) = (Arc::clone(self), self.engine.turn().await?);
        let (checked, turn) = background(turn, move || (this.checked(), Scratch)).await?;
        let (checked, scratch) = checked;
        let (compiled, turn) = self.engine.compiled(turn, checked?).await?;
        let (this, name) = (Arc::clone(self), listed.name.clone());
        let kept = background(turn, move || {
            let _scratch = scratch;
            this.engine.remember(&name, &compiled.code, &this.about);
            compiled.linked
        });
        Ok(kept.await?.0)
    }

    /// Reads it again.
    ///
    /// # Errors
    /// What is there now is another one, or cannot be read.
    fn checked(&self) -> Result<Checked, LoadError> {
        let replaced = || LoadError::Passing("it was replaced since it was listed".to_owned());
        let listed = self.listed.as_ref().ok_or_else(replaced)?;
        let read = listed.source.lock().as_ref().map(Source::read).transpose()?;
        let bytes = read.ok_or_else(replaced)?;
        if self.engine.cache_name(&digest::of_bytes(&bytes)) != listed.name {
            return Err(replaced());
        }
        Ok(check::component(&bytes)?)
    }
}

fn gone() -> LoadError {
    LoadError::Passing("its code is not there".to_owned())
}

clawhost_core::shows!(Loaded { digest, imports });

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use claw_guest_artifacts::{Artifact, BUILT_IN};
    use serde_json::json;

    use super::super::CodeCache;
    use super::*;

    fn artifact(name: &str) -> &'static Artifact {
        BUILT_IN.iter().find(|artifact| artifact.name == name).unwrap()
    }

    fn engine(cache: &tempfile::TempDir) -> Arc<Engine> {
        let cache = CodeCache::open(cache.path(), [7; 32]).unwrap();
        Arc::new(Engine::new(1, Some(cache)).unwrap())
    }

    /// Returns a source of the calculator that gives `bytes`, and how often it was read.
    fn source(bytes: &'static [u8]) -> (Source, Arc<AtomicUsize>) {
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reads);
        let source = Source::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(bytes.into())
        });
        (source.known(artifact("calculator").digest), reads)
    }

    /// Returns what a second host on the cache of a first one lists.
    async fn listed(
        cache: &tempfile::TempDir,
        bytes: &'static [u8],
    ) -> (Arc<Loaded>, Arc<AtomicUsize>) {
        let first = engine(cache).load(artifact("calculator").bytes.to_vec()).await.unwrap();
        let (source, reads) = source(bytes);
        let second = engine(cache).listed(source).ok().unwrap();
        assert_eq!(second.definitions, first.definitions);
        assert_eq!((&second.digest, &second.imports), (&first.digest, &first.imports));
        assert!(second.code.get().is_none() && first.code.get().is_some());
        (second, reads)
    }

    /// Changes the first byte of the one entry there is: a byte of its code.
    fn damage(cache: &tempfile::TempDir) {
        let path = std::fs::read_dir(cache.path()).unwrap().next().unwrap().unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[0] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }

    #[tokio::test]
    async fn what_is_listed_has_its_code_from_the_first_call_on_and_is_not_read() {
        let cache = tempfile::tempdir().unwrap();
        let (loaded, reads) = listed(&cache, artifact("calculator").bytes).await;
        let (one, other) = tokio::join!(loaded.code(), loaded.code());
        assert!(std::ptr::eq(one.ok().unwrap(), other.ok().unwrap()));
        assert_eq!(reads.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn code_that_cannot_be_mapped_is_copied() {
        let cache = tempfile::tempdir().unwrap();
        let (loaded, _) = listed(&cache, artifact("calculator").bytes).await;
        let listed = loaded.listed.as_ref().unwrap();
        let file = loaded.engine.cache.as_ref().unwrap().code(&listed.name, listed.hash).unwrap();
        let runtime = loaded.engine.runtime(loaded.is_p3).ok().unwrap();
        for component in [runtime.copy(&file), runtime.cached(&file)] {
            assert!(runtime.linked(&component.unwrap(), &Docs::default()).is_ok());
        }
    }

    #[tokio::test]
    async fn code_that_is_damaged_after_the_list_is_compiled_anew_and_kept() {
        let cache = tempfile::tempdir().unwrap();
        let (loaded, reads) = listed(&cache, artifact("calculator").bytes).await;
        damage(&cache);
        assert!(loaded.code().await.is_ok());
        assert_eq!(reads.load(Ordering::Relaxed), 1);
        let (loaded, reads) = listed(&cache, artifact("calculator").bytes).await;
        assert!(loaded.code().await.is_ok());
        assert_eq!(reads.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn another_component_never_runs_in_the_place_of_what_was_listed() {
        let cache = tempfile::tempdir().unwrap();
        let (loaded, _) = listed(&cache, artifact("key-value").bytes).await;
        assert!(loaded.code().await.is_ok(), "the cache has the code of what was listed");
        // Nor is it compiled.
        for other in [artifact("key-value").bytes, b"no component"] {
            let (loaded, _) = listed(&cache, other).await;
            damage(&cache);
            let error = loaded.code().await.err().unwrap();
            let LoadError::Passing(why) = &error else { panic!("{error}") };
            assert!(why.contains("replaced"), "{why}");
        }
    }

    #[tokio::test]
    async fn what_has_a_schema_that_is_none_is_not_remembered() {
        let cache = tempfile::tempdir().unwrap();
        let engine = engine(&cache);
        let checked = check::component(artifact("calculator").bytes).unwrap();
        let (compiled, _) = engine.compiled(engine.turn().await.unwrap(), checked).await.unwrap();
        let tool = |kind: &str| ToolDefinition {
            input_schema: json!({"type": kind}),
            output_schema: None,
            ..kinds::command("tool")
        };
        for (kind, entries) in [("no such type", 0), ("object", 1)] {
            let about = About { definitions: vec![tool(kind)], ..compiled.about.clone() };
            assert_eq!(engine.remember("name", &compiled.code, &about), entries == 1);
            assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), entries);
        }
    }

    #[tokio::test]
    async fn what_was_just_compiled_is_listed_as_later_starts_list_it() {
        for can_keep in [true, false] {
            let cache = tempfile::tempdir().unwrap();
            let engine = engine(&cache);
            // A folder that is gone takes no entry.
            if !can_keep {
                std::fs::remove_dir(cache.path()).unwrap();
            }
            let (source, reads) = source(artifact("calculator").bytes);
            let turn = engine.turn().await.unwrap();
            let (loaded, _) = engine.load_in(turn, source).await.ok().unwrap();
            assert_eq!((loaded.is_listed(), loaded.code.get().is_none()), (can_keep, can_keep));
            assert!(loaded.code().await.is_ok());
            assert_eq!(reads.load(Ordering::Relaxed), 1);
        }
    }
}
