//! `wasi:filesystem` for guests, over the call's [`Tree`].

use std::fmt;
use std::sync::Arc;

use clawhost_core::grants::CallLimits;
use clawhost_core::violation::{Lack, Violation};
use rustix::io::Errno;
use wasmtime::component::{HasData, Linker, Resource, ResourceTable, ResourceTableError};
use wasmtime_wasi_io::streams::{DynInputStream, DynOutputStream};

use super::bindings::wasi::filesystem::{preopens, types};
use super::convert::{
    code_of, flags_of, follow_of, hash_of, how_of, stat_of, times_of, told_of, type_of, uses_of,
};
use super::fault::Fault;
use super::file::{self, OpenFile, READ_BYTES_MAX};
use super::folder::Folder;
use super::listing::Listing;
use super::meter::{FsLimits, Limit, Meter};
use super::open::Node;
use super::roots::Roots;
use super::stat::{FileFacts, Kind};
use super::stream::{self, FileInput, FileOutput, WriteTo};
use super::tape::{self, Answer};
use super::tree::Tree;
use crate::recording::{Blob, Tape};

/// Refusals of one call that are kept for its audit record; more say nothing new.
const VIOLATIONS_MAX: usize = 32;
/// Characters of a guest's path in such a record.
const VIOLATION_PATH_CHARS_MAX: usize = 200;

/// The file capabilities of one call.
#[derive(Debug)]
pub struct FsCtx {
    tree: Tree,
    violations: Vec<Violation>,
    pub(super) tape: Tape,
    /// Held by what waits for the disk: one at a time, as each holds a thread.
    #[cfg(feature = "wasi-p3")]
    pub(super) disk: Arc<tokio::sync::Mutex<()>>,
}

impl FsCtx {
    /// Returns the capabilities of a call that may use `roots` under `limits`.
    #[must_use]
    pub fn new(roots: Arc<Roots>, limits: &CallLimits) -> Self {
        let meter = Arc::new(Meter::new(FsLimits::of(limits)));
        Self {
            tree: Tree::new(roots, meter),
            violations: Vec::new(),
            tape: Tape::default(),
            #[cfg(feature = "wasi-p3")]
            disk: Arc::default(),
        }
    }

    /// Has `tape` keep what the guest is answered, or answer it.
    #[must_use]
    pub(crate) fn taped(self, tape: Tape) -> Self {
        Self { tape, ..self }
    }

    /// Returns capabilities that grant nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::new(Arc::new(Roots::none()), &CallLimits::default())
    }

    /// Returns the work done since the last look: bytes moved plus entries and path components
    /// visited.
    pub fn take_work(&mut self) -> u64 {
        self.tree.meter().take_work()
    }

    /// Returns what the guest reached for without a grant, each as one printable line.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Returns the first quota the call ran into.
    #[must_use]
    pub fn exceeded(&self) -> Option<Limit> {
        self.tree.meter().exceeded()
    }

    /// Records a refusal, with the path escaped so that it cannot forge a line.
    fn note(&mut self, action: &str, path: &str, fault: Fault) {
        if !fault.is_denial() || self.violations.len() >= VIOLATIONS_MAX {
            return;
        }
        let path: String = path.chars().take(VIOLATION_PATH_CHARS_MAX).collect();
        let text = if path.is_empty() {
            format!("{action}: {fault}")
        } else {
            format!("{action} {path:?}: {fault}")
        };
        let lacks = match fault {
            Fault::ReadOnly(granted) => self.tree.roots().read_only_name(granted),
            _ => None,
        };
        let lacks = lacks.map(Lack::Write);
        self.violations.push(Violation { text, told: None, lacks });
    }
}

/// A call's file capabilities beside the table its handles live in.
#[derive(Debug)]
pub struct FsView<'a> {
    /// The capabilities.
    pub ctx: &'a mut FsCtx,
    /// The handles.
    pub table: &'a mut ResourceTable,
}

/// Names [`FsView`] for a linker.
#[derive(Debug)]
pub struct HasFs;

impl HasData for HasFs {
    type Data<'a> = FsView<'a>;
}

/// Links `wasi:filesystem` to the view that `get` returns.
///
/// # Errors
/// Only where the linker has these interfaces already.
pub fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    get: fn(&mut T) -> FsView<'_>,
) -> wasmtime::Result<()> {
    types::add_to_linker::<T, HasFs>(linker, get)?;
    preopens::add_to_linker::<T, HasFs>(linker, get)
}

/// How a host function fails: with an answer for the guest, or by ending it.
#[derive(Debug)]
pub enum HostFault {
    /// The guest gets the code of this.
    Fault(Fault),
    /// The guest ends.
    Trap(wasmtime::Error),
}

impl From<Fault> for HostFault {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<ResourceTableError> for HostFault {
    fn from(error: ResourceTableError) -> Self {
        Self::Trap(error.into())
    }
}

impl HostFault {
    fn into_error(self) -> wasmtime::Error {
        match self {
            Self::Fault(fault) => fault.into(),
            Self::Trap(error) => error,
        }
    }
}

impl FsView<'_> {
    fn file(&self, node: &Resource<Node>, otherwise: Errno) -> Answer<Arc<OpenFile>> {
        match self.table.get(node)? {
            Node::File(file) => Ok(Arc::clone(file)),
            Node::Folder(_) => Err(Fault::Os(otherwise).into()),
        }
    }

    fn folder(&self, node: &Resource<Node>) -> Answer<Folder> {
        match self.table.get(node)? {
            Node::Folder(folder) => Ok(folder.clone()),
            Node::File(_) => Err(Fault::Os(Errno::NOTDIR).into()),
        }
    }

    /// Runs an operation on a path, and records it where it is refused.
    pub(super) fn at<T>(
        &mut self,
        action: &str,
        node: &Resource<Node>,
        path: &str,
        run: impl FnOnce(&Tree, &Folder) -> Result<T, Fault>,
    ) -> Answer<T> {
        let folder = self.folder(node)?;
        let result = run(&self.ctx.tree, &folder);
        self.noted(action, path, result)
    }

    fn noted<T>(&mut self, action: &str, path: &str, result: Result<T, Fault>) -> Answer<T> {
        result.map_err(|fault| {
            self.ctx.note(action, path, fault);
            fault.into()
        })
    }

    fn output(&mut self, node: &Resource<Node>, to: WriteTo) -> Answer<Resource<DynOutputStream>> {
        let live = self.made(format_args!("write-via-stream {to:?}"), |view| {
            let file = view.file(node, Errno::BADF)?;
            if !file.writes() {
                return Err(Fault::Os(Errno::BADF).into());
            }
            Ok(FileOutput::new(file, to))
        })?;
        Ok(self.table.push(stream::output(live, &self.ctx.tape))?)
    }

    async fn read_bytes(
        &mut self,
        node: &Resource<Node>,
        len: u64,
        offset: u64,
    ) -> Answer<(Blob, bool)> {
        let file = self.file(node, Errno::ISDIR)?;
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(READ_BYTES_MAX);
        if len == 0 {
            return Ok((Blob::default(), false));
        }
        let (bytes, ended) = file::read_chunks(&file, len, offset).await?;
        Ok((Blob(bytes), ended))
    }

    async fn write_bytes(
        &mut self,
        node: &Resource<Node>,
        bytes: &[u8],
        offset: u64,
    ) -> Answer<u64> {
        let file = self.file(node, Errno::BADF)?;
        let result = file::write_chunks(&file, bytes, offset).await;
        self.noted("write", "", result)
    }

    async fn synced(&mut self, node: &Resource<Node>, all: bool) -> Answer<()> {
        let tape = self.ctx.tape.clone();
        let file = if tape.plays() { None } else { self.disk_file(node)? };
        tape::soon(tape, "sync", wait_for_disk(file, all, ())).await
    }

    /// Returns the file that has to reach the disk; none of a directory, whose entries are the system's.
    pub(super) fn disk_file(&self, node: &Resource<Node>) -> Answer<Option<Arc<OpenFile>>> {
        Ok(match self.table.get(node)? {
            Node::File(file) => Some(Arc::clone(file)),
            Node::Folder(_) => None,
        })
    }
}

impl preopens::Host for FsView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Node>, String)>> {
        if let Some(names) = self.ctx.tape.played("folders", Vec::new) {
            return names.into_iter().map(|name| Ok((self.handle(None)?, name))).collect();
        }
        if self.ctx.tree.roots().are_taken_away() {
            self.ctx.note("look for folders", "", Fault::Closed);
        }
        let folders = self.ctx.tree.roots().folders()?;
        self.ctx.tape.keep("folders", &folders.iter().map(|(_, name)| name).collect::<Vec<_>>());
        let push = |(folder, name)| Ok((self.table.push(Node::Folder(folder))?, name));
        folders.into_iter().map(push).collect()
    }
}

impl types::Host for FsView<'_> {
    fn convert_error_code(&mut self, fault: HostFault) -> wasmtime::Result<types::ErrorCode> {
        match fault {
            HostFault::Fault(fault) => Ok(code_of(fault)),
            HostFault::Trap(error) => Err(error),
        }
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<types::ErrorCode>> {
        Ok(self.table.get(&error)?.downcast_ref::<Fault>().copied().map(code_of))
    }
}

impl types::HostDescriptor for FsView<'_> {
    fn read_via_stream(
        &mut self,
        node: Resource<Node>,
        offset: u64,
    ) -> Answer<Resource<DynInputStream>> {
        let live = self.made(format_args!("read-via-stream {offset}"), |view| {
            let file = view.file(&node, Errno::ISDIR)?;
            if !file.reads() {
                return Err(Fault::Os(Errno::BADF).into());
            }
            Ok(FileInput::new(file, offset))
        })?;
        Ok(self.table.push(stream::input(live, &self.ctx.tape))?)
    }

    fn write_via_stream(
        &mut self,
        node: Resource<Node>,
        offset: u64,
    ) -> Answer<Resource<DynOutputStream>> {
        self.output(&node, WriteTo::At(offset))
    }

    fn append_via_stream(&mut self, node: Resource<Node>) -> Answer<Resource<DynOutputStream>> {
        self.output(&node, WriteTo::End)
    }

    /// Advice is taken and not passed on: it would let a guest choose what the host reads ahead.
    fn advise(
        &mut self,
        node: Resource<Node>,
        _offset: u64,
        _len: u64,
        _advice: types::Advice,
    ) -> Answer<()> {
        self.taped(format_args!("advise"), |view| view.file(&node, Errno::BADF).map(|_| ()))
    }

    async fn sync_data(&mut self, node: Resource<Node>) -> Answer<()> {
        self.synced(&node, false).await
    }

    fn get_flags(&mut self, node: Resource<Node>) -> Answer<types::DescriptorFlags> {
        let uses =
            self.taped(format_args!("get-flags"), |view| Ok(uses_of(view.table.get(&node)?)))?;
        Ok(flags_of(uses))
    }

    fn get_type(&mut self, node: Resource<Node>) -> Answer<types::DescriptorType> {
        let kind = self.taped(format_args!("get-type"), |view| {
            Ok(match view.table.get(&node)? {
                Node::File(_) => Kind::File,
                Node::Folder(_) => Kind::Directory,
            })
        })?;
        Ok(type_of(kind))
    }

    fn set_size(&mut self, node: Resource<Node>, size: u64) -> Answer<()> {
        self.taped(format_args!("set-size {size}"), |view| {
            let result = view.file(&node, Errno::BADF)?.set_size(size);
            view.noted("set-size", "", result)
        })
    }

    fn set_times(
        &mut self,
        node: Resource<Node>,
        accessed: types::NewTimestamp,
        modified: types::NewTimestamp,
    ) -> Answer<()> {
        let times = times_of(accessed, modified)?;
        self.taped(format_args!("set-times"), |view| {
            let result = match view.table.get(&node)? {
                Node::File(file) => file.set_times(&times),
                Node::Folder(folder) => view.ctx.tree.set_folder_times(folder, &times),
            };
            view.noted("set-times", "", result)
        })
    }

    async fn read(
        &mut self,
        node: Resource<Node>,
        len: u64,
        offset: u64,
    ) -> Answer<(Vec<u8>, bool)> {
        let of = fmt::from_fn(|f| write!(f, "read {len} {offset}"));
        let (tape, read) = (self.ctx.tape.clone(), self.read_bytes(&node, len, offset));
        let (Blob(bytes), ended) = tape::soon(tape, of, read).await?;
        Ok((bytes, ended))
    }

    async fn write(&mut self, node: Resource<Node>, bytes: Vec<u8>, offset: u64) -> Answer<u64> {
        let of = fmt::from_fn(|f| write!(f, "write {} {offset}", bytes.len()));
        let (tape, write) = (self.ctx.tape.clone(), self.write_bytes(&node, &bytes, offset));
        tape::soon(tape, of, write).await
    }

    fn read_directory(&mut self, node: Resource<Node>) -> Answer<Resource<Listing>> {
        let listing = self.made(format_args!("read-directory"), |view| {
            let folder = view.folder(&node)?;
            Ok(view.ctx.tree.list(&folder)?)
        })?;
        self.handle(listing).map_err(HostFault::Trap)
    }

    async fn sync(&mut self, node: Resource<Node>) -> Answer<()> {
        self.synced(&node, true).await
    }

    fn create_directory_at(&mut self, node: Resource<Node>, path: String) -> Answer<()> {
        self.taped_at("create-directory", &node, &path, |tree, folder| {
            tree.create_dir(folder, &path)
        })
    }

    fn stat(&mut self, node: Resource<Node>) -> Answer<types::DescriptorStat> {
        let told = self
            .taped(format_args!("stat"), |view| Ok(told_of(&facts_of(view.table.get(&node)?)?)))?;
        Ok(stat_of(told))
    }

    fn stat_at(
        &mut self,
        node: Resource<Node>,
        flags: types::PathFlags,
        path: String,
    ) -> Answer<types::DescriptorStat> {
        let told = self.taped_at("stat", &node, &path, |tree, folder| {
            tree.stat(folder, &path, follow_of(flags)).map(|facts| told_of(&facts))
        });
        told.map(stat_of)
    }

    fn set_times_at(
        &mut self,
        node: Resource<Node>,
        flags: types::PathFlags,
        path: String,
        accessed: types::NewTimestamp,
        modified: types::NewTimestamp,
    ) -> Answer<()> {
        let times = times_of(accessed, modified)?;
        self.taped_at("set-times", &node, &path, |tree, folder| {
            tree.set_times(folder, &path, follow_of(flags), &times)
        })
    }

    fn link_at(
        &mut self,
        node: Resource<Node>,
        _flags: types::PathFlags,
        path: String,
        to: Resource<Node>,
        new: String,
    ) -> Answer<()> {
        self.taped(format_args!("link {path} {new}"), |view| {
            let to = view.folder(&to)?;
            view.at("link", &node, &path, |tree, folder| tree.link(folder, &path, &to, &new))
        })
    }

    fn open_at(
        &mut self,
        node: Resource<Node>,
        follow: types::PathFlags,
        path: String,
        open: types::OpenFlags,
        flags: types::DescriptorFlags,
    ) -> Answer<Resource<Node>> {
        let how = how_of(open, flags)?;
        let to = if how.write || how.create || how.truncate { "open to write" } else { "open" };
        let opened = self.made(format_args!("{to} {path}"), |view| {
            view.at("open", &node, &path, |tree, folder| {
                tree.open(folder, &path, follow_of(follow), how)
            })
        })?;
        self.handle(opened).map_err(HostFault::Trap)
    }

    fn readlink_at(&mut self, node: Resource<Node>, path: String) -> Answer<String> {
        self.taped_at("readlink", &node, &path, |tree, folder| tree.read_link(folder, &path))
    }

    fn remove_directory_at(&mut self, node: Resource<Node>, path: String) -> Answer<()> {
        self.taped_at("remove-directory", &node, &path, |tree, folder| {
            tree.remove_dir(folder, &path)
        })
    }

    fn rename_at(
        &mut self,
        node: Resource<Node>,
        path: String,
        to: Resource<Node>,
        new: String,
    ) -> Answer<()> {
        self.taped(format_args!("rename {path} {new}"), |view| {
            let to = view.folder(&to)?;
            view.at("rename", &node, &path, |tree, folder| tree.rename(folder, &path, &to, &new))
        })
    }

    fn symlink_at(&mut self, node: Resource<Node>, target: String, path: String) -> Answer<()> {
        self.taped_at("symlink", &node, &path, |tree, folder| tree.symlink(&target, folder, &path))
    }

    fn unlink_file_at(&mut self, node: Resource<Node>, path: String) -> Answer<()> {
        self.taped_at("unlink-file", &node, &path, |tree, folder| tree.remove_file(folder, &path))
    }

    fn is_same_object(
        &mut self,
        one: Resource<Node>,
        other: Resource<Node>,
    ) -> wasmtime::Result<bool> {
        let is_same = self.taped(format_args!("is-same-object"), |view| {
            let (one, other) = (view.table.get(&one)?, view.table.get(&other)?);
            Ok(facts_of(one)?.id == facts_of(other)?.id)
        });
        is_same.map_err(HostFault::into_error)
    }

    fn metadata_hash(&mut self, node: Resource<Node>) -> Answer<types::MetadataHashValue> {
        let hash = self.taped(format_args!("metadata-hash"), |view| {
            let id = facts_of(view.table.get(&node)?)?.id;
            Ok(view.ctx.tree.hash(id))
        });
        hash.map(hash_of)
    }

    fn metadata_hash_at(
        &mut self,
        node: Resource<Node>,
        flags: types::PathFlags,
        path: String,
    ) -> Answer<types::MetadataHashValue> {
        let stat = |tree: &Tree, folder: &Folder| {
            tree.stat(folder, &path, follow_of(flags)).map(|facts| tree.hash(facts.id))
        };
        self.taped_at("metadata-hash", &node, &path, stat).map(hash_of)
    }

    fn drop(&mut self, node: Resource<Node>) -> wasmtime::Result<()> {
        self.close(node)
    }
}

impl types::HostDirectoryEntryStream for FsView<'_> {
    fn read_directory_entry(
        &mut self,
        listing: Resource<Listing>,
    ) -> Answer<Option<types::DirectoryEntry>> {
        let entry = self.taped(format_args!("read-directory-entry"), |view| {
            Ok(view.table.get_mut(&listing)?.next_entry()?)
        })?;
        Ok(entry
            .map(|entry| types::DirectoryEntry { type_: type_of(entry.kind), name: entry.name }))
    }

    fn drop(&mut self, listing: Resource<Listing>) -> wasmtime::Result<()> {
        self.close(listing)
    }
}

/// Waits until `file` is on the disk. Nothing ends that: it keeps the file's handle and `turn` also where nobody
/// waits for it any more.
pub(super) async fn wait_for_disk(
    file: Option<Arc<OpenFile>>,
    all: bool,
    turn: impl Send + 'static,
) -> Answer<()> {
    let Some(file) = file else { return Ok(()) };
    let wait = move || {
        let done = file.sync(all);
        drop((file, turn));
        done
    };
    let done = tokio::task::spawn_blocking(wait).await;
    let done = done.map_err(|error| HostFault::Trap(error.into()))?;
    done.map_err(HostFault::from)
}

fn facts_of(node: &Node) -> Result<FileFacts, Fault> {
    match node {
        Node::File(file) => file.facts(),
        Node::Folder(folder) => folder.facts(),
    }
}
