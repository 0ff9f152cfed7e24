//! `wasi:filesystem` of WASI 0.3: 0.2's calls on the same view ([`super::host`]), their words turned into the
//! new ones and back. Bytes and entries go through streams of the engine, a chunk at a time.

mod stream;
mod words;

use std::convert::identity as same;
use std::sync::Arc;

use wasmtime::component::{Access, Accessor, FutureReader, Linker, Resource, StreamReader};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p3::bindings::filesystem::{preopens, types};
use wasmtime_wasi::p3::filesystem::{FilesystemError, FilesystemResult};

use self::stream::{Told, reading, writing};
use self::words::{
    advice_of, flags_of, follow_of, hash_of, open_of, stat_of, time_of, told, type_of, uses_of,
};
use super::bindings::wasi::filesystem::preopens as old_preopens;
use super::bindings::wasi::filesystem::types::HostDescriptor as _;
use super::host::{FsView, HasFs, HostFault, wait_for_disk};
use super::open::Node;
use super::tape::Answer;
use types::{NewTimestamp, PathFlags};

/// Links the interfaces to the view that `get` returns.
///
/// # Errors
/// Only where the linker has these interfaces already.
pub(in crate::sandbox) fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    get: fn(&mut T) -> FsView<'_>,
) -> wasmtime::Result<()> {
    types::add_to_linker::<T, HasFs>(linker, get)?;
    preopens::add_to_linker::<T, HasFs>(linker, get)
}

fn failed(fault: HostFault) -> FilesystemError {
    match fault {
        HostFault::Fault(fault) => told(fault).into(),
        HostFault::Trap(error) => FilesystemError::trap(error),
    }
}

/// Returns our name of a handle. Both name one entry of the call's table.
fn node(handle: &Resource<Descriptor>) -> Resource<Node> {
    Resource::new_borrow(handle.rep())
}

fn handle(node: &Resource<Node>) -> Resource<Descriptor> {
    Resource::new_own(node.rep())
}

/// Asks the view, which answers at once.
fn ask<U, T>(
    store: &Accessor<U, HasFs>,
    ask: impl FnOnce(&mut FsView<'_>) -> Answer<T>,
) -> FilesystemResult<T> {
    store.with(|mut access| ask(&mut access.get())).map_err(failed)
}

async fn synced<U>(
    store: &Accessor<U, HasFs>,
    file: Resource<Descriptor>,
    all: bool,
) -> FilesystemResult<()> {
    let (turn, file) =
        ask(store, |view| Ok((Arc::clone(&view.ctx.disk), view.disk_file(&node(&file))?)))?;
    wait_for_disk(file, all, turn.lock_owned().await).await.map_err(failed)
}

impl types::Host for FsView<'_> {
    fn convert_error_code(&mut self, error: FilesystemError) -> wasmtime::Result<types::ErrorCode> {
        error.downcast()
    }
}

impl types::HostDescriptor for FsView<'_> {
    fn drop(&mut self, file: Resource<Descriptor>) -> wasmtime::Result<()> {
        self.close(Resource::<Node>::new_own(file.rep()))
    }
}

impl preopens::Host for FsView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let folders = old_preopens::Host::get_directories(self)?;
        Ok(folders.into_iter().map(|(folder, name)| (handle(&folder), name)).collect())
    }
}

/// Writes calls that are 0.2's: each argument and the answer with what makes it of the other version.
macro_rules! forwarded {
    ($($name:ident($($arg:ident: $ty:ty => $old:expr),*) -> $answer:ty = $new:expr;)*) => {$(
        async fn $name(
            store: &Accessor<U, Self>,
            on: Resource<Descriptor>,
            $($arg: $ty),*
        ) -> FilesystemResult<$answer> {
            ask(store, |view| view.$name(node(&on), $($old),*)).map($new)
        }
    )*};
}

impl<U> types::HostDescriptorWithStore<U> for HasFs {
    fn read_via_stream(
        store: Access<'_, U, Self>,
        file: Resource<Descriptor>,
        offset: u64,
    ) -> wasmtime::Result<(StreamReader<u8>, FutureReader<Told>)> {
        reading(store, |view| {
            let stream = view.read_via_stream(node(&file), offset)?;
            Ok(view.table.delete(stream)?)
        })
    }

    fn write_via_stream(
        store: Access<'_, U, Self>,
        file: Resource<Descriptor>,
        data: StreamReader<u8>,
        offset: u64,
    ) -> wasmtime::Result<FutureReader<Told>> {
        writing(store, data, |view| view.write_via_stream(node(&file), offset))
    }

    fn append_via_stream(
        store: Access<'_, U, Self>,
        file: Resource<Descriptor>,
        data: StreamReader<u8>,
    ) -> wasmtime::Result<FutureReader<Told>> {
        writing(store, data, |view| view.append_via_stream(node(&file)))
    }

    fn read_directory(
        store: Access<'_, U, Self>,
        folder: Resource<Descriptor>,
    ) -> wasmtime::Result<(StreamReader<types::DirectoryEntry>, FutureReader<Told>)> {
        reading(store, |view| {
            let listing = view.read_directory(node(&folder))?;
            Ok(view.table.delete(listing)?)
        })
    }

    async fn sync(store: &Accessor<U, Self>, file: Resource<Descriptor>) -> FilesystemResult<()> {
        synced(store, file, true).await
    }

    async fn sync_data(
        store: &Accessor<U, Self>,
        file: Resource<Descriptor>,
    ) -> FilesystemResult<()> {
        synced(store, file, false).await
    }

    async fn is_same_object(
        store: &Accessor<U, Self>,
        one: Resource<Descriptor>,
        other: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        store.with(|mut access| access.get().is_same_object(node(&one), node(&other)))
    }

    forwarded! {
        advise(offset: u64 => offset, length: u64 => length, advice: types::Advice => advice_of(advice)) -> () = same;
        get_flags() -> types::DescriptorFlags = flags_of;
        get_type() -> types::DescriptorType = type_of;
        set_size(size: u64 => size) -> () = same;
        set_times(read: NewTimestamp => time_of(read)?, written: NewTimestamp => time_of(written)?) -> () = same;
        create_directory_at(path: String => path) -> () = same;
        stat() -> types::DescriptorStat = stat_of;
        stat_at(follow: PathFlags => follow_of(follow), path: String => path) -> types::DescriptorStat = stat_of;
        set_times_at(follow: PathFlags => follow_of(follow), path: String => path,
            read: NewTimestamp => time_of(read)?, written: NewTimestamp => time_of(written)?) -> () = same;
        link_at(follow: PathFlags => follow_of(follow), path: String => path,
            to: Resource<Descriptor> => node(&to), new: String => new) -> () = same;
        open_at(follow: PathFlags => follow_of(follow), path: String => path, open: types::OpenFlags => open_of(open),
            uses: types::DescriptorFlags => uses_of(uses)) -> Resource<Descriptor> = |it| handle(&it);
        readlink_at(path: String => path) -> String = same;
        remove_directory_at(path: String => path) -> () = same;
        rename_at(path: String => path, to: Resource<Descriptor> => node(&to), new: String => new) -> () = same;
        symlink_at(target: String => target, path: String => path) -> () = same;
        unlink_file_at(path: String => path) -> () = same;
        metadata_hash() -> types::MetadataHashValue = hash_of;
        metadata_hash_at(follow: PathFlags => follow_of(follow), path: String => path) -> types::MetadataHashValue = hash_of;
    }
}
