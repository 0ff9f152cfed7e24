//! The WASI interfaces as a guest meets them: handles, codes, streams, the record of refusals.

use std::sync::Arc;

use clawhost_core::grants::{Access, CallLimits, Mount};
use clawhost_core::violation::Lack;
use wasmtime::component::{Component, Linker, Resource, ResourceTable};
use wasmtime_wasi_io::streams::StreamError;

use crate::sandbox::fs::bindings::wasi::filesystem::preopens::Host as _;
use crate::sandbox::fs::bindings::wasi::filesystem::types::{
    DescriptorFlags, DescriptorType, ErrorCode, Host as _, HostDescriptor as _,
    HostDirectoryEntryStream as _, NewTimestamp, OpenFlags, PathFlags,
};
use crate::sandbox::fs::convert::code_of;
use crate::sandbox::fs::file::READ_BYTES_MAX;
use crate::sandbox::fs::host::wait_for_disk;
use crate::sandbox::fs::{FsCtx, FsView, HostFault, Node, Roots, add_to_linker};

/// A guest's state, over a fresh directory.
struct Guest {
    ctx: FsCtx,
    table: ResourceTable,
    temp: tempfile::TempDir,
}

impl Guest {
    fn new(access: Access, limits: &CallLimits) -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("f"), b"hello").unwrap();
        let host = temp.path().to_path_buf();
        let mount = Mount { host, guest: "/".to_owned(), access, create: false };
        let roots = Arc::new(Roots::open(&[mount], &[]).unwrap());
        Self { ctx: FsCtx::new(roots, limits), table: ResourceTable::new(), temp }
    }

    fn view(&mut self) -> FsView<'_> {
        FsView { ctx: &mut self.ctx, table: &mut self.table }
    }

    fn root(&mut self) -> Resource<Node> {
        self.view().get_directories().unwrap().remove(0).0
    }

    fn open(
        &mut self,
        path: &str,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> Result<Resource<Node>, ErrorCode> {
        let root = self.root();
        let opened = self.view().open_at(root, PathFlags::SYMLINK_FOLLOW, path.into(), open, flags);
        opened.map_err(code)
    }

    fn refused(&mut self, path: &str, open: OpenFlags, flags: DescriptorFlags) -> ErrorCode {
        self.open(path, open, flags).expect_err(path)
    }

    fn open_rw(&mut self, path: &str) -> Resource<Node> {
        self.open(path, OpenFlags::CREATE, DescriptorFlags::READ | DescriptorFlags::WRITE).unwrap()
    }
}

fn code(fault: HostFault) -> ErrorCode {
    match fault {
        HostFault::Fault(fault) => code_of(fault),
        HostFault::Trap(error) => panic!("{error}"),
    }
}

/// Returns another name for the same handle, as a guest's borrow does.
fn again(node: &Resource<Node>) -> Resource<Node> {
    Resource::new_borrow(node.rep())
}

#[test]
fn preopens_are_fresh_handles_each_time_and_none_without_a_grant() {
    let mut guest = Guest::new(Access::ReadOnly, &CallLimits::default());
    let (first, second) = (guest.root(), guest.root());
    assert_ne!(first.rep(), second.rep());
    assert!(guest.view().is_same_object(again(&first), again(&second)).unwrap());
    crate::sandbox::fs::bindings::wasi::filesystem::types::HostDescriptor::drop(
        &mut guest.view(),
        first,
    )
    .unwrap();
    assert_eq!(guest.view().get_type(second).map_err(code), Ok(DescriptorType::Directory));
    let mut nothing = FsCtx::none();
    let mut view = FsView { ctx: &mut nothing, table: &mut guest.table };
    assert!(view.get_directories().unwrap().is_empty());
}

#[tokio::test]
async fn a_write_of_many_chunks_is_whole_and_a_read_is_bounded() {
    let mut guest = Guest::new(Access::ReadWrite, &CallLimits::default());
    let file = guest.open_rw("big");
    let bytes: Vec<u8> =
        (0..READ_BYTES_MAX + 10).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let written = guest.view().write(again(&file), bytes.clone(), 0).await.map_err(code);
    assert_eq!(written, Ok(bytes.len() as u64));
    let (first, ended) = guest.view().read(again(&file), u64::MAX, 0).await.unwrap();
    assert_eq!((first.len(), ended), (READ_BYTES_MAX, false));
    let rest = guest.view().read(again(&file), u64::MAX, READ_BYTES_MAX as u64).await.unwrap();
    assert_eq!([first, rest.0].concat(), bytes);
    let end = guest.view().read(again(&file), 1, bytes.len() as u64).await.unwrap();
    assert_eq!(end, (Vec::new(), true));
    assert_eq!(guest.view().sync(file).await.map_err(code), Ok(()));
    assert!(guest.ctx.take_work() >= 2 * bytes.len() as u64);
    assert_eq!(std::fs::read(guest.temp.path().join("big")).unwrap(), bytes);
}

#[test]
fn refusals_have_their_codes_and_leave_one_printable_line_each() {
    let mut guest = Guest::new(Access::ReadOnly, &CallLimits::default());
    let (none, read, write) = (OpenFlags::empty(), DescriptorFlags::READ, DescriptorFlags::WRITE);
    assert_eq!(guest.refused("../x\n\u{1b}[2J", none, read), ErrorCode::NotPermitted);
    assert_eq!(guest.refused("f", none, write), ErrorCode::ReadOnly);
    assert_eq!(guest.refused("f", OpenFlags::TRUNCATE, read), ErrorCode::ReadOnly);
    assert_eq!(guest.refused("nope", none, read), ErrorCode::NoEntry);
    assert_eq!(guest.refused("f", OpenFlags::DIRECTORY, read), ErrorCode::NotDirectory);
    let sync = DescriptorFlags::FILE_INTEGRITY_SYNC;
    assert_eq!(guest.refused("f", none, sync), ErrorCode::Unsupported);
    let lines = guest.ctx.violations();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0].text, r#"open "../x\n\u{1b}[2J": the path leaves the granted directory"#);
    let write = Some(Lack::Write("/".to_owned()));
    assert_eq!([&lines[0].lacks, &lines[1].lacks], [&None, &write]);
    for _ in 0..100 {
        let _ = guest.open("..", none, read);
    }
    assert_eq!(guest.ctx.violations().len(), 32);
    assert_eq!(std::fs::read(guest.temp.path().join("f")).unwrap(), b"hello");
}

#[tokio::test]
async fn handles_know_what_they_were_opened_for() {
    let mut guest = Guest::new(Access::ReadWrite, &CallLimits::default());
    let none = OpenFlags::empty();
    let read = guest.open("f", none, DescriptorFlags::READ).unwrap();
    let write = guest.open("f", none, DescriptorFlags::WRITE).unwrap();
    let bad = ErrorCode::BadDescriptor;
    assert_eq!(guest.view().get_flags(again(&read)).map_err(code), Ok(DescriptorFlags::READ));
    assert_eq!(guest.view().write(again(&read), vec![1], 0).await.map_err(code), Err(bad));
    assert_eq!(guest.view().set_size(again(&read), 0).map_err(code), Err(bad));
    assert_eq!(guest.view().read(again(&write), 1, 0).await.map_err(code), Err(bad));
    assert!(
        matches!(guest.view().append_via_stream(again(&read)), Err(HostFault::Fault(it)) if code_of(it) == bad)
    );
    assert!(
        matches!(guest.view().read_via_stream(again(&write), 0), Err(HostFault::Fault(it)) if code_of(it) == bad)
    );
    let root = guest.root();
    let is_dir = ErrorCode::IsDirectory;
    assert_eq!(guest.view().read(again(&root), 1, 0).await.map_err(code), Err(is_dir));
    let time = NewTimestamp::Now;
    assert_eq!(guest.view().set_times(read, time, time).map_err(code), Ok(()));
}

#[test]
fn a_stream_error_gives_its_code_back() {
    let limits = CallLimits { open_files: 1, ..CallLimits::default() };
    let mut guest = Guest::new(Access::ReadWrite, &limits);
    let file = guest.open_rw("f");
    let stream = guest.view().write_via_stream(again(&file), u64::MAX - 1).unwrap();
    let error = guest.table.get_mut(&stream).unwrap().write("xyz".into()).unwrap_err();
    let StreamError::LastOperationFailed(error) = error else { panic!("{error:?}") };
    let error = guest.table.push(error).unwrap();
    let found = guest.view().filesystem_error_code(error).unwrap();
    assert_eq!(found, Some(ErrorCode::FileTooLarge));
    // The stream keeps the handle's place until it goes too.
    crate::sandbox::fs::bindings::wasi::filesystem::types::HostDescriptor::drop(
        &mut guest.view(),
        file,
    )
    .unwrap();
    assert_eq!(guest.refused("f", OpenFlags::empty(), DescriptorFlags::READ), ErrorCode::Quota);
    assert_eq!(guest.ctx.exceeded(), Some(crate::sandbox::fs::Limit::OpenFiles));
    guest.table.delete(stream).unwrap();
    assert!(guest.open("f", OpenFlags::empty(), DescriptorFlags::READ).is_ok());
}

#[test]
fn a_directory_is_listed_entry_by_entry_and_hashes_are_stable() {
    let mut guest = Guest::new(Access::ReadWrite, &CallLimits::default());
    let root = guest.root();
    guest.view().create_directory_at(again(&root), "d".into()).unwrap();
    let listing = guest.view().read_directory(again(&root)).unwrap();
    let mut names = Vec::new();
    let borrow = |of: &Resource<crate::sandbox::fs::Listing>| Resource::new_borrow(of.rep());
    while let Some(entry) = guest.view().read_directory_entry(borrow(&listing)).unwrap() {
        names.push((entry.name, entry.type_));
    }
    names.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [("d", DescriptorType::Directory), ("f", DescriptorType::RegularFile)];
    assert_eq!(names, expected.map(|(name, kind)| (name.to_owned(), kind)));
    let hash = |guest: &mut Guest, path: &str| {
        let root = guest.root();
        guest
            .view()
            .metadata_hash_at(root, PathFlags::empty(), path.into())
            .map(|h| (h.lower, h.upper))
            .unwrap()
    };
    let (first, dir) = (hash(&mut guest, "f"), hash(&mut guest, "d"));
    assert_eq!(hash(&mut guest, "d/../f"), first);
    assert_ne!(first, dir);
    assert_ne!(first.0, first.1);
}

#[test]
fn a_component_that_imports_the_interfaces_links() {
    let engine = wasmtime::Engine::default();
    let mut linker: Linker<(FsCtx, ResourceTable)> = Linker::new(&engine);
    add_to_linker(&mut linker, |(ctx, table)| FsView { ctx, table }).unwrap();
    let wat = r#"(component
        (import "wasi:filesystem/types@0.2.12" (instance $types
            (export "descriptor" (type (sub resource)))))
        (alias export $types "descriptor" (type $descriptor))
        (import "wasi:filesystem/preopens@0.2.12" (instance
            (alias outer 1 $descriptor (type $outer))
            (export "descriptor" (type $d (eq $outer)))
            (export "get-directories"
                (func (result (list (tuple (own $d) string))))))))"#;
    let component = Component::new(&engine, wat).unwrap();
    assert!(linker.instantiate_pre(&component).is_ok());
}

#[test]
fn a_wait_for_the_disk_that_nobody_waits_for_keeps_its_turn_and_its_handle_until_it_ends() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        let limits = CallLimits { open_files: 1, ..CallLimits::default() };
        let mut guest = Guest::new(Access::ReadWrite, &limits);
        let file = guest.open_rw("f");
        let (end, busy) = std::sync::mpsc::channel::<()>();
        let before = tokio::task::spawn_blocking(move || busy.recv().unwrap_err());
        let turn = Arc::new(tokio::sync::Mutex::new(()));
        let disk = guest.view().disk_file(&file).unwrap();
        let wait = wait_for_disk(disk, true, Arc::clone(&turn).lock_owned().await);
        // It is asked once whether it is done, and given up.
        assert!(tokio::time::timeout(std::time::Duration::ZERO, wait).await.is_err());
        guest.view().close(file).unwrap();
        assert!(turn.try_lock().is_err());
        assert_eq!(guest.refused("f", OpenFlags::empty(), DescriptorFlags::READ), ErrorCode::Quota);
        drop(end);
        before.await.unwrap();
        drop(turn.lock().await);
        guest.open("f", OpenFlags::empty(), DescriptorFlags::READ).unwrap();
    });
}
