//! Grants against each other: read-only, nested, closed, shared by a hard link, gone.

use std::os::unix::fs::symlink;

use clawhost_core::grants::{Access, Mount};
use rustix::io::Errno;

use super::place::{
    CANARY, CREATE, Place, READ, TIMES, TRUNCATE, WRITE, every_answer, file, mount, names,
    open_roots, os,
};
use crate::sandbox::fs::{
    Fault, FolderBounds, Follow, FsLimits, Meter, OpenHow, RootError, Roots, Tree,
};

#[test]
fn f10_guests_make_no_hard_links() {
    let mounts = [("root", Access::ReadWrite), ("root2", Access::ReadOnly)];
    let place = Place::granting(&mounts, &[], FsLimits::default());
    place.file("f", b"x");
    assert_eq!(place.tree.link(&place.root, "f", &place.root, "g"), Err(Fault::LinkRefused));
    let ro = place.folder(1);
    assert_eq!(place.tree.link(&ro, "canary", &place.root, "g"), Err(Fault::ReadOnly(ro.id)));
    assert_eq!(names(&place, &place.root), ["f"]);
}

#[test]
fn f11_a_file_with_a_second_name_is_read_but_never_written() {
    let place = Place::new();
    let before_link = place.file("mine", b"mine");
    let canary = place.temp.path().join("outside/canary");
    std::fs::hard_link(&canary, place.path("hard")).unwrap();
    std::fs::hard_link(place.path("mine"), place.temp.path().join("root2/mine")).unwrap();
    let before = place.outside();
    for how in [WRITE, TRUNCATE, CREATE] {
        assert_eq!(place.open("hard", how).unwrap_err(), Fault::HardLinked);
    }
    let times = place.tree.set_times(&place.root, "hard", Follow::Yes, &TIMES);
    assert_eq!(times, Err(Fault::HardLinked));
    assert_eq!(before_link.write_at(b"x", 0), Err(Fault::HardLinked));
    assert_eq!(before_link.append(b"x"), Err(Fault::HardLinked));
    assert_eq!(before_link.set_size(0), Err(Fault::HardLinked));
    assert_eq!(place.open("hard", READ).map(file).unwrap().read_at(64, 0).unwrap(), CANARY);
    assert_eq!(place.outside(), before);
}

#[test]
fn f12_nothing_moves_into_or_out_of_a_read_only_grant() {
    let mounts = [("root", Access::ReadWrite), ("root2", Access::ReadOnly)];
    let place = Place::granting(&mounts, &[], FsLimits::default());
    place.file("f", b"x");
    let ro = place.folder(1);
    let refused = Fault::ReadOnly(ro.id);
    assert_eq!(place.tree.rename(&place.root, "f", &ro, "f"), Err(refused));
    assert_eq!(place.tree.rename(&ro, "canary", &place.root, "g"), Err(refused));
    assert_eq!(place.tree.rename(&ro, "canary", &ro, "moved"), Err(refused));
    assert_eq!(place.tree.roots().read_only_name(ro.id).as_deref(), Some("/root2"));
    assert_eq!(place.tree.roots().read_only_name(place.root.id), None);
    assert_eq!(names(&place, &ro), ["canary"]);
}

#[test]
fn f13_f14_a_read_only_grant_changes_in_no_way() {
    let place = Place::granting(&[("root2", Access::ReadOnly)], &[], FsLimits::default());
    let (before, refused) = (place.outside(), Fault::ReadOnly(place.root.id));
    let truncate_only = OpenHow { truncate: true, ..READ };
    for how in [WRITE, CREATE, TRUNCATE, truncate_only, OpenHow { create: true, ..READ }] {
        assert_eq!(place.open("canary", how).unwrap_err(), refused);
        assert_eq!(place.open("new", how).unwrap_err(), refused);
    }
    for follow in [Follow::No, Follow::Yes] {
        let times = |path| place.tree.set_times(&place.root, path, follow, &TIMES);
        assert_eq!((times("canary"), times(".")), (Err(refused), Err(refused)));
    }
    let open = place.open("canary", READ).map(file).unwrap();
    assert_eq!(open.set_times(&TIMES), Err(refused));
    assert_eq!(open.set_size(0), Err(refused));
    assert_eq!(open.write_at(b"x", 0), Err(refused));
    assert_eq!(open.append(b"x"), Err(refused));
    assert_eq!(place.tree.remove_file(&place.root, "canary"), Err(refused));
    assert_eq!(place.tree.create_dir(&place.root, "d"), Err(refused));
    assert_eq!(place.tree.symlink("x", &place.root, "l"), Err(refused));
    assert_eq!(open.read_at(64, 0).unwrap(), CANARY);
    assert_eq!(place.outside(), before);
}

#[test]
fn f20_a_closed_name_is_closed_in_any_case_and_before_it_exists() {
    let closed = ["root/.env", "root/conf/keys"];
    let place = Place::granting(&[("root", Access::ReadWrite)], &closed, FsLimits::default());
    for path in [".env", ".ENV", ".Env", "./.env", "conf", "CONF", "conf/keys", "conf/other"] {
        for answer in every_answer(&place, &place.root, path) {
            assert_eq!(answer, Fault::Closed, "{path}");
        }
    }
    place.open(".envrc", CREATE).unwrap();
    std::fs::write(place.path(".env"), CANARY).unwrap();
    assert_eq!(place.open(".env", READ).unwrap_err(), Fault::Closed);
    assert_eq!(names(&place, &place.root), [".envrc"]);
}

#[test]
fn f20_a_closed_object_is_closed_under_any_name_and_cannot_be_replaced() {
    let lay_out = |root: &std::path::Path| {
        std::fs::create_dir_all(root.join("a/secret")).unwrap();
        std::fs::write(root.join("a/secret/key"), CANARY).unwrap();
        std::fs::write(root.join("a/.env"), CANARY).unwrap();
        std::fs::hard_link(root.join("a/.env"), root.join("alias")).unwrap();
        symlink("a/.env", root.join("link")).unwrap();
        symlink("a/secret", root.join("dirlink")).unwrap();
    };
    let closed = ["root/a/.env", "root/a/secret"];
    let rw = [("root", Access::ReadWrite)];
    let place = Place::laid_out(lay_out, &rw, &closed, FsLimits::default());
    let tree = &place.tree;
    for path in ["a/.env", "alias", "link", "a/secret", "a/secret/key", "dirlink/key", "dirlink"] {
        for how in [READ, WRITE, CREATE] {
            assert_eq!(place.open(path, how).unwrap_err(), Fault::Closed, "{path}");
        }
        assert_eq!(tree.stat(&place.root, path, Follow::Yes), Err(Fault::Closed), "{path}");
    }
    place.file("mine", b"x");
    for path in ["alias", "a/.env", "a/secret"] {
        assert_eq!(tree.rename(&place.root, path, &place.root, "moved"), Err(Fault::Closed));
        assert_eq!(tree.rename(&place.root, "mine", &place.root, path), Err(Fault::Closed));
        assert_eq!(tree.remove_file(&place.root, path), Err(Fault::Closed));
        assert_eq!(tree.remove_dir(&place.root, path), Err(Fault::Closed));
    }
    assert_eq!(tree.rename(&place.root, "a", &place.root, "b"), Err(Fault::Pinned));
    assert!(names(&place, &place.dir("a").unwrap()).is_empty());
}

#[test]
fn f30_a_root_that_is_nowhere_or_everywhere_is_refused() {
    for host in ["", ".", "root", "../root", "/tmp/../etc"] {
        assert_eq!(open_roots(host).unwrap_err(), RootError::Path(host.into()));
    }
    for host in ["/", "//", "/."] {
        assert_eq!(open_roots(host).unwrap_err(), RootError::Whole(host.into()));
    }
    for (host, errno) in [("/nope/nope", Errno::NOENT), ("/etc/passwd", Errno::NOTDIR)] {
        let fault = os(errno);
        assert_eq!(open_roots(host).unwrap_err(), RootError::Open { path: host.into(), fault });
    }
    assert!(Roots::open(&[], &[]).unwrap().folders().unwrap().is_empty());
    assert!(Roots::none().folders().unwrap().is_empty());
}

#[test]
fn f30_a_root_replaced_during_the_run_stays_the_one_that_was_granted() {
    let place = Place::new();
    place.file("f", b"granted");
    std::fs::rename(place.temp.path().join("root"), place.temp.path().join("moved")).unwrap();
    symlink("outside", place.temp.path().join("root")).unwrap();
    assert_eq!(place.open("canary", READ).unwrap_err(), os(Errno::NOENT));
    assert_eq!(place.open("f", READ).map(file).unwrap().read_at(9, 0).unwrap(), b"granted");
    assert_eq!(place.open("../outside/canary", READ).unwrap_err(), Fault::Outside);
}

#[test]
fn f30_a_root_deleted_during_the_run_is_an_error() {
    let place = Place::new();
    std::fs::remove_dir(place.temp.path().join("root")).unwrap();
    assert_eq!(place.open("f", CREATE).unwrap_err(), os(Errno::NOENT));
    assert_eq!(place.tree.create_dir(&place.root, "d"), Err(os(Errno::NOENT)));
    assert_eq!(place.open("../outside/canary", READ).unwrap_err(), Fault::Outside);
}

#[test]
fn f31_a_nested_read_only_grant_is_read_only_on_every_route() {
    let lay_out = |root: &std::path::Path| {
        std::fs::create_dir_all(root.join("a/ro/deep")).unwrap();
        std::fs::write(root.join("a/ro/f"), b"kept").unwrap();
        symlink("a/ro", root.join("link")).unwrap();
    };
    let mounts = [
        ("root", Access::ReadWrite),
        ("root/a/ro", Access::ReadOnly),
        ("root/a/ro/deep", Access::ReadWrite),
    ];
    let place = Place::laid_out(lay_out, &mounts, &[], FsLimits::default());
    let (tree, refused) = (&place.tree, Fault::ReadOnly(place.folder(1).id));
    let via_root = place.dir("a").unwrap();
    let routes = [
        (place.root.clone(), "a/ro/"),
        (place.root.clone(), "link/"),
        (place.root.clone(), "a/ro/deep/../"),
        (via_root, "ro/"),
        (place.folder(1), ""),
        (place.dir("a/ro").unwrap(), ""),
    ];
    for (base, route) in routes {
        let at = |name: &str| format!("{route}{name}");
        for how in [WRITE, TRUNCATE, CREATE] {
            let open = tree.open(&base, &at("f"), Follow::Yes, how);
            assert_eq!(open.unwrap_err(), refused, "{route}");
        }
        assert_eq!(tree.create_dir(&base, &at("deep/new")), Err(refused), "{route}");
        assert_eq!(tree.remove_file(&base, &at("f")), Err(refused), "{route}");
        assert_eq!(tree.rename(&base, &at("f"), &place.root, "f"), Err(refused));
    }
    assert_eq!(tree.create_dir(&place.folder(2), "new"), Err(refused));
    assert_eq!(tree.set_times(&place.root, "a/ro", Follow::Yes, &TIMES), Err(refused));
    for (path, to) in [("a/ro", "x"), ("a", "x")] {
        assert_eq!(tree.rename(&place.root, path, &place.root, to), Err(Fault::Pinned), "{path}");
        assert_eq!(tree.remove_dir(&place.root, path), Err(Fault::Pinned), "{path}");
    }
    tree.create_dir(&place.root, "empty").unwrap();
    assert_eq!(tree.rename(&place.root, "empty", &place.root, "a/ro"), Err(Fault::Pinned));
    assert_eq!(place.bytes("a/ro/f"), b"kept");
}

#[test]
fn f31_the_same_directory_granted_twice_has_the_stricter_grant() {
    let mounts = [("root", Access::ReadWrite), ("root", Access::ReadOnly)];
    let place = Place::granting(&mounts, &[], FsLimits::default());
    assert_eq!(place.open("f", CREATE).unwrap_err(), Fault::ReadOnly(place.root.id));
}

#[test]
fn f31_a_mount_inside_a_closed_path_is_refused_at_load() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("a/b")).unwrap();
    let mounts = [mount(&place.temp, "root/a/b", Access::ReadWrite)];
    for closed in ["root/a/b", "root/a", "root"] {
        let closed = [place.temp.path().join(closed)];
        let error = Roots::open(&mounts, &closed).unwrap_err();
        assert_eq!(error, RootError::Closed(mounts[0].host.clone()));
    }
}

#[test]
fn a_mount_that_may_be_created_is_made_when_it_is_first_asked_for() {
    let place = Place::new();
    let host = place.path("work/space");
    let of = |access| Mount { host: host.clone(), guest: "/".to_owned(), access, create: true };
    for access in [Access::ReadWrite, Access::ReadOnly] {
        let roots = Roots::open(&[of(access)], &[]).unwrap();
        assert!(!host.exists());
        let folders = roots.folders().unwrap();
        assert_eq!(folders.iter().map(|(folder, _)| folder.access).collect::<Vec<_>>(), [access]);
        assert!(host.is_dir());
        std::fs::remove_dir(&host).unwrap();
    }
    // Through the one around it, it is for reading only as well.
    let around = mount(&place.temp, "root", Access::ReadWrite);
    Roots::open(&[around, of(Access::ReadOnly)], &[]).unwrap();
    assert!(host.is_dir());
}

/// What is left of a writable `root/a` where these bind as well.
fn left(place: &Place, mounts: &[(&str, Access)], closed: &[&str]) -> Option<Access> {
    let own = mount(&place.temp, "root/a", Access::ReadWrite);
    let own = Roots::open(&[own], &[]).unwrap();
    own.within(&places(place, mounts, closed)).unwrap().1.remove(0)
}

fn places(place: &Place, mounts: &[(&str, Access)], closed: &[&str]) -> FolderBounds {
    let mounts: Vec<_> =
        mounts.iter().map(|(path, access)| mount(&place.temp, path, *access)).collect();
    let closed: Vec<_> = closed.iter().map(|path| place.temp.path().join(path)).collect();
    FolderBounds::look_up(&mounts, &closed).unwrap()
}

#[test]
fn a_directory_stays_only_where_the_other_profile_has_it_too_and_with_the_lesser_right() {
    let (ro, rw) = (Access::ReadOnly, Access::ReadWrite);
    let place = Place::new();
    std::fs::create_dir_all(place.path("a/b")).unwrap();
    place.link("a", "alias");
    for (mounts, closed, expected) in [
        (&[("root", rw)][..], &[][..], Some(rw)),
        (&[("root", ro)], &[], Some(ro)),
        (&[("root/alias", rw)], &[], Some(rw)),
        (&[("root/a/b", rw)], &[], None),
        (&[("outside", rw)], &[], None),
        (&[("root/nowhere", rw)], &[], None),
        (&[], &[], None),
        (&[("root", rw), ("root/a", ro)], &[], Some(ro)),
        (&[("root", rw), ("root/a/b", ro)], &[], Some(ro)),
        (&[("root", rw)], &["root/a/b"], Some(rw)),
        (&[("root", rw)], &["root/alias"], None),
        (&[("root", rw)], &["root"], None),
    ] {
        assert_eq!(left(&place, mounts, closed), expected, "{mounts:?} {closed:?}");
    }
}

#[test]
fn no_later_link_moves_what_narrows() {
    let place = Place::new();
    for folder in ["a", "vault", "other"] {
        std::fs::create_dir(place.path(folder)).unwrap();
        std::fs::write(place.path(folder).join("key"), folder).unwrap();
    }
    place.link("vault", "door");
    place.link("a", "to-a");
    place.link("other", "to-other");
    let root = || Roots::open(&[mount(&place.temp, "root", Access::ReadWrite)], &[]).unwrap();
    let closing = places(&place, &[("root", Access::ReadWrite)], &["root/door/key"]);
    let (to_a, to_other) = (
        places(&place, &[("root/to-a", Access::ReadWrite)], &[]),
        places(&place, &[("root/to-other", Access::ReadWrite)], &[]),
    );
    for link in ["door", "to-a", "to-other"] {
        std::fs::remove_file(place.path(link)).unwrap();
    }
    place.link("other", "door");
    place.link("other", "to-a");
    place.link("a", "to-other");
    let own = Roots::open(&[mount(&place.temp, "root/a", Access::ReadWrite)], &[]).unwrap();
    assert_eq!(own.within(&to_a).unwrap().1, [Some(Access::ReadWrite)]);
    assert_eq!(own.within(&to_other).unwrap().1, [None]);
    let narrowed = std::sync::Arc::new(root().within(&closing).unwrap().0);
    let folder = narrowed.folders().unwrap().remove(0).0;
    let tree = Tree::new(narrowed, std::sync::Arc::new(Meter::new(FsLimits::default())));
    let open = |path: &str| tree.open(&folder, path, Follow::Yes, READ);
    assert_eq!(open("vault/key").unwrap_err(), Fault::Closed);
    assert!(open("door/key").is_ok());
}

#[test]
fn a_mount_that_is_still_to_be_made_is_told_by_its_path_and_looking_makes_nothing() {
    let (place, rw) = (Place::new(), Access::ReadWrite);
    let host = place.path("work/space");
    let own = Mount { host: host.clone(), guest: "/".to_owned(), access: rw, create: true };
    let roots = Roots::open(&[own], &[]).unwrap();
    let [same, around, beside, closing] = [
        places(&place, &[("root/work/space", Access::ReadOnly)], &[]),
        places(&place, &[("root", rw)], &[]),
        places(&place, &[("root/work", rw)], &[]),
        places(&place, &[("root", rw)], &["root/work/space/key"]),
    ];
    for made in [false, true] {
        assert_eq!(host.exists(), made);
        assert_eq!(roots.within(&same).unwrap().1, [Some(Access::ReadOnly)]);
        assert_eq!(roots.within(&around).unwrap().1, [Some(rw)]);
        assert_eq!(roots.within(&beside).unwrap().1, [None]);
        assert_eq!(roots.within(&closing).unwrap().1, [None], "its key would be open");
        roots.folders().unwrap();
    }
}
