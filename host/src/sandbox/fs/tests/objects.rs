//! Objects that are no files, objects that are too large or too many, and the quotas.

use std::sync::Arc;

use clawhost_core::grants::Access;
use rustix::io::Errno;

use super::place::{CREATE, Place, READ, TRUNCATE, WRITE, file, names, open_roots, os, raced};
use crate::sandbox::fs::{
    CHUNK_BYTES_MAX, Fault, Follow, FsLimits, Kind, Limit, Node, OpenHow, Tree,
};

#[test]
fn f22_f24_fifos_and_sockets_are_refused_without_waiting() {
    let place = Place::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.path("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place.path("socket")).unwrap();
    for path in ["fifo", "socket"] {
        for how in [READ, WRITE, CREATE, TRUNCATE] {
            assert_eq!(place.open(path, how).unwrap_err(), Fault::Special, "{path}");
        }
        assert_eq!(place.tree.remove_file(&place.root, path), Err(Fault::Special));
        assert_eq!(place.tree.rename(&place.root, path, &place.root, "x"), Err(Fault::Special));
        assert_eq!(place.tree.stat(&place.root, path, Follow::Yes).unwrap().kind, Kind::Special);
    }
}

#[test]
fn f22_a_fifo_swapped_in_meanwhile_does_not_block() {
    let place = Place::new();
    raced(&place, "f", |turn| {
        let next = place.path("next");
        if turn % 2 == 0 {
            let fifo = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, &next, fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        } else {
            std::fs::write(&next, b"inside").unwrap();
        }
        std::fs::rename(&next, place.path("f")).unwrap();
    });
}

#[test]
fn f23_f25_f26_devices_and_magic_links_are_refused() {
    let place = Place::new();
    let links = ["/dev/zero", "/proc/self/root/etc/passwd", "/proc/self/environ", "/dev/fd/0"];
    for (index, target) in links.iter().enumerate() {
        place.link(target, &format!("l{index}"));
        assert_eq!(place.open(&format!("l{index}"), READ).unwrap_err(), Fault::Outside);
    }
    let granted = |host: &str| {
        let roots = Arc::new(open_roots(host).unwrap());
        let root = roots.folders().unwrap().remove(0).0;
        (Tree::new(roots, Arc::default()), root)
    };
    let (tree, dev) = granted("/dev");
    assert_eq!(tree.open(&dev, "zero", Follow::Yes, READ).unwrap_err(), Fault::Special);
    let (tree, proc) = granted("/proc/self");
    for path in ["root/etc/passwd", "cwd/Cargo.toml", "exe"] {
        assert_eq!(
            tree.open(&proc, path, Follow::Yes, READ).unwrap_err(),
            Fault::Outside,
            "{path}"
        );
    }
}

#[test]
fn f24_a_directory_is_not_opened_for_writing() {
    let place = Place::new();
    place.tree.create_dir(&place.root, "d").unwrap();
    for path in ["d", "."] {
        for how in [WRITE, CREATE, TRUNCATE] {
            assert_eq!(place.open(path, how).unwrap_err(), os(Errno::ISDIR));
        }
    }
    assert_eq!(place.tree.remove_file(&place.root, "d"), Err(os(Errno::ISDIR)));
    assert_eq!(place.tree.remove_dir(&place.root, "."), Err(os(Errno::INVAL)));
    assert_eq!(place.tree.create_dir(&place.root, "d"), Err(os(Errno::EXIST)));
    place.tree.remove_dir(&place.root, "d").unwrap();
}

#[test]
fn f27_reading_is_bounded_whatever_the_size() {
    let place = Place::new();
    std::fs::File::create(place.path("sparse")).unwrap().set_len(10 << 30).unwrap();
    let sparse = place.open("sparse", READ).map(file).unwrap();
    assert_eq!(sparse.read_at(usize::MAX, 0).unwrap().len(), CHUNK_BYTES_MAX);
    assert_eq!(sparse.read_at(usize::MAX, 10 << 30).unwrap().len(), 0);
    assert_eq!(sparse.read_at(usize::MAX, u64::MAX).unwrap_err(), os(Errno::INVAL));
}

#[test]
fn f28_the_write_quota_holds_to_the_byte_and_counts_holes() {
    let place = Place::with_write_quota(10);
    let out = place.file("out", b"");
    let full = Err(Fault::Limit(Limit::WriteBytes));
    assert_eq!(out.write_at(b"12345678901", 0), full);
    assert_eq!(out.write_at(b"x", 1 << 40), full);
    assert_eq!(out.set_size(11), Err(Fault::Limit(Limit::WriteBytes)));
    assert_eq!(place.bytes("out"), b"");
    assert_eq!(out.write_at(b"1234567890", 0), Ok(10));
    assert_eq!(out.append(b"x"), full);
    assert_eq!(out.write_at(b"x", u64::MAX), Err(os(Errno::FBIG)));
    assert_eq!(place.bytes("out"), b"1234567890");
    assert_eq!(place.tree.meter().exceeded(), Some(Limit::WriteBytes));
}

#[test]
fn f28_entries_and_handles_are_counted_and_failures_are_not() {
    let limits = FsLimits { create_entries: 3, open_files: 2, ..FsLimits::default() };
    let place = Place::granting(&[("root", Access::ReadWrite)], &[], limits);
    let first = place.open("a", CREATE).unwrap();
    assert_eq!(place.tree.create_dir(&place.root, "a"), Err(os(Errno::EXIST)));
    place.tree.create_dir(&place.root, "b").unwrap();
    place.tree.symlink("a", &place.root, "c").unwrap();
    let full = Fault::Limit(Limit::CreateEntries);
    assert_eq!(place.open("d", CREATE).unwrap_err(), full);
    assert_eq!(place.tree.create_dir(&place.root, "d"), Err(full));
    assert_eq!(place.tree.symlink("a", &place.root, "d"), Err(full));
    let _second = place.dir("b").unwrap();
    let no_handle = Fault::Limit(Limit::OpenFiles);
    assert_eq!(place.open("a", READ).unwrap_err(), no_handle);
    assert_eq!(place.tree.list(&place.root).unwrap_err(), no_handle);
    drop(first);
    assert!(place.open("a", READ).is_ok());
    assert_eq!(names(&place, &place.root), ["a", "b", "c"]);
}

#[test]
fn f28_a_tree_deeper_than_a_walk_may_go_is_an_error_and_reached_by_handles() {
    let limits = FsLimits { open_files: 1_000, ..FsLimits::default() };
    let place = Place::granting(&[("root", Access::ReadWrite)], &[], limits);
    let mut folder = place.root.clone();
    for _ in 0..300 {
        place.tree.create_dir(&folder, "d").unwrap();
        let how = OpenHow { directory: true, ..READ };
        folder = match place.tree.open(&folder, "d", Follow::No, how).unwrap() {
            Node::Folder(folder) => folder,
            Node::File(_) => unreachable!(),
        };
    }
    let deep = format!("{}d", "d/".repeat(299));
    assert_eq!(place.open(&deep, READ).unwrap_err(), os(Errno::NAMETOOLONG));
    assert!(place.open(&format!("{}d", "d/".repeat(99)), READ).is_ok());
}

#[test]
fn f29_a_long_listing_stops_at_its_quota() {
    let limits = FsLimits { list_entries: 100, ..FsLimits::default() };
    let place = Place::granting(&[("root", Access::ReadOnly)], &[], limits);
    for index in 0..150 {
        std::fs::write(place.path(&index.to_string()), b"").unwrap();
    }
    let mut listing = place.tree.list(&place.root).unwrap();
    for _ in 0..100 {
        assert!(listing.next_entry().unwrap().is_some());
    }
    assert_eq!(listing.next_entry(), Err(Fault::Limit(Limit::ListEntries)));
}

fn mode(place: &Place, path: &str) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;

    let meta = std::fs::metadata(place.path(path)).unwrap();
    meta.permissions().mode() & 0o7777
}

fn set_mode(place: &Place, path: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(place.path(path), mode).unwrap();
}

#[test]
fn a_file_moved_over_another_takes_over_its_permissions() {
    let place = Place::new();
    for (old, new, expected) in [
        (0o600, 0o644, 0o600),
        (0o755, 0o644, 0o755),
        (0o640, 0o640, 0o640),
        (0o6711, 0o644, 0o711),
        (0o1644, 0o600, 0o644),
        (0o600, 0o4755, 0o600),
    ] {
        std::fs::write(place.path("f"), b"old").unwrap();
        std::fs::write(place.path("part"), b"new").unwrap();
        set_mode(&place, "f", old);
        set_mode(&place, "part", new);
        let moved = place.tree.rename(&place.root, "part", &place.root, "f");
        assert_eq!(moved, Ok(()));
        assert_eq!((place.bytes("f"), mode(&place, "f")), (b"new".to_vec(), expected));
    }
    std::fs::write(place.path("part"), b"new").unwrap();
    set_mode(&place, "part", 0o640);
    let moved = place.tree.rename(&place.root, "part", &place.root, "nothing-there");
    assert_eq!((moved, mode(&place, "nothing-there")), (Ok(()), 0o640));
}

#[test]
fn a_file_with_names_elsewhere_does_not_take_over_permissions() {
    let place = Place::new();
    let outside = place.temp.path().join("outside/canary");
    std::fs::hard_link(outside, place.path("hard")).unwrap();
    std::fs::write(place.path("f"), b"old").unwrap();
    set_mode(&place, "hard", 0o600);
    set_mode(&place, "f", 0o666);
    let moved = place.tree.rename(&place.root, "hard", &place.root, "f");
    assert_eq!(moved, Err(Fault::HardLinked));
    assert_eq!(mode(&place, "hard"), 0o600);
}

#[test]
fn a_link_moved_over_a_file_changes_no_permissions() {
    let place = Place::new();
    std::fs::write(place.path("aim"), b"").unwrap();
    std::fs::write(place.path("f"), b"").unwrap();
    set_mode(&place, "aim", 0o600);
    set_mode(&place, "f", 0o666);
    place.link("aim", "l");
    assert_eq!(place.tree.rename(&place.root, "l", &place.root, "f"), Ok(()));
    assert_eq!(mode(&place, "aim"), 0o600);
}

#[test]
fn all_bytes_pass_the_one_place_for_io() {
    let place = Place::new();
    let out = place.file("f", b"1234");
    let moved = |io: &dyn Fn()| {
        let before = place.tree.meter().moved();
        io();
        place.tree.meter().moved() - before
    };
    let thousand = [0; 1_000];
    assert!(moved(&|| assert_eq!(out.write_at(&thousand, 0), Ok(1_000))) >= 1_000);
    assert!(moved(&|| assert_eq!(out.append(&thousand), Ok(1_000))) >= 1_000);
    assert!(moved(&|| drop(out.read_at(1_500, 0).unwrap())) >= 1_500);
    assert!(moved(&|| out.set_size(9_000).unwrap()) >= 7_000);
    assert!(moved(&|| drop(place.open("f", TRUNCATE).unwrap())) >= 9_000);
    std::fs::write(place.path("f"), [0; 2_000]).unwrap();
    assert!(moved(&|| place.tree.remove_file(&place.root, "f").unwrap()) >= 2_000);
}

#[test]
fn work_is_counted_and_taken_once() {
    let place = Place::new();
    place.tree.meter().take_work();
    place.file("f", b"").write_at(&[0; 1_000], 0).unwrap();
    assert!(place.tree.meter().take_work() >= 1_000);
    assert_eq!(place.tree.meter().take_work(), 0);
}
