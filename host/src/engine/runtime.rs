//! A wasmtime engine and its linker: what compiled code becomes callable with.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use clawhost_core::truncate;
use wasmtime::component::{Component, Linker};

use super::LoadError;
use super::check::REASON_BYTES_MAX;
use super::kinds::docs::Docs;
use super::kinds::{self, Kind, Outline};
use super::loaded::Code;
use crate::sandbox::CallState;
use crate::sandbox::bindings::GuestIndices;

/// Where a process finds what it has open, by number.
const HANDLES: &str = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };

/// What compiles components, and what they may import.
pub(super) struct Runtime {
    pub(super) engine: wasmtime::Engine,
    pub(super) linker: Linker<CallState>,
}

impl Runtime {
    /// Returns the component that was compiled to `code`.
    ///
    /// # Errors
    /// It is of another engine, or of a component that is too large for this one.
    pub(super) fn restore(&self, code: &[u8]) -> wasmtime::Result<Component> {
        #[expect(unsafe_code, reason = "compiled code is loaded as wasmtime offers only unsafely")]
        // SAFETY: `deserialize` runs what it is given. The bytes are what this host's Cranelift wrote: here, in the
        // program of its own that was just started for it, or before, and kept in the file that `map` takes as well.
        unsafe {
            Component::deserialize(&self.engine, code)
        }
    }

    /// Returns the component whose code `cached` begins with: mapped and not copied, but where the system runs nothing
    /// of its file system (`noexec`).
    ///
    /// # Errors
    /// As [`restore`](Self::restore), and where the file cannot be read.
    pub(super) fn cached(&self, cached: &File) -> wasmtime::Result<Component> {
        self.map(cached).or_else(|_| self.copy(cached))
    }

    pub(super) fn copy(&self, mut cached: &File) -> wasmtime::Result<Component> {
        let mut code = Vec::new();
        cached.rewind()?;
        cached.read_to_end(&mut code)?;
        self.restore(&code)
    }

    fn map(&self, cached: &File) -> wasmtime::Result<Component> {
        // By its handle: another file may have taken its name.
        let file = Path::new(HANDLES).join(cached.as_raw_fd().to_string());
        #[expect(unsafe_code, reason = "compiled code is loaded as wasmtime offers only unsafely")]
        // SAFETY: `deserialize_file` runs what the file has, now and later. It is what this host's Cranelift wrote:
        // it was held against a hash that is authenticated with the host's own key. Only the host's user may write
        // to it or to its folder, which is granted to nobody, and the host itself writes no file of it twice.
        unsafe {
            Component::deserialize_file(&self.engine, file)
        }
    }

    pub(super) fn linked(&self, component: &Component, docs: &Docs) -> Result<Code, LoadError> {
        let outline = kinds::outline(&self.engine, component, docs)?;
        let pre = self.linker.instantiate_pre(component).map_err(|error| {
            // It may quote a name.
            let why = format!("{error:#}");
            let why = truncate::text(&why, REASON_BYTES_MAX);
            LoadError::Unusable(format!("its imports do not fit what the host offers: {why}"))
        })?;
        let kind = match outline {
            Outline::Settled(kind) => kind,
            Outline::Tool => Kind::Tool(GuestIndices::new(&pre).map_err(|error| {
                LoadError::Unusable(format!(
                    "it is of another world: a tool exports `claw:tool/tool@0.1.0` ({error:#})"
                ))
            })?),
        };
        Ok(Code { kind, pre })
    }
}
