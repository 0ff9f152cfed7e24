//! Paths and links that try to leave the root, and those that are no paths at all.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use rustix::io::Errno;

use super::place::{
    CREATE, Place, READ, TIMES, TRUNCATE, WRITE, assert_outside, every_answer, file, names, os,
    raced,
};
use crate::sandbox::fs::{Entry, Fault, Follow, Kind, OpenHow};

#[test]
fn f1_climbing_above_the_root_is_refused_at_every_depth() {
    let place = Place::new();
    for levels in 1..=64 {
        assert_outside(&place, &format!("{}etc/passwd", "../".repeat(levels)));
        assert_outside(&place, &format!("{}outside/canary", "../".repeat(levels)));
    }
    assert_outside(&place, "..");
    assert_eq!(place.open("nope/../../outside/canary", READ).unwrap_err(), os(Errno::NOENT));
    assert_eq!(place.open("nope/../../outside/new", CREATE).unwrap_err(), os(Errno::NOENT));
}

#[test]
fn f1_a_directory_handle_is_a_root_of_its_own() {
    let place = Place::new();
    place.tree.create_dir(&place.root, "a").unwrap();
    place.file("beside", b"x");
    let folder = place.dir("a").unwrap();
    let answer = place.tree.open(&folder, "../beside", Follow::Yes, READ);
    assert_eq!(answer.unwrap_err(), Fault::Outside);
}

#[test]
fn f2_absolute_paths_are_refused_whatever_they_name() {
    let place = Place::new();
    let canary = place.temp.path().join("outside/canary");
    for path in ["/", "/etc/passwd", "//etc/passwd", "/nope", canary.to_str().unwrap()] {
        assert_outside(&place, path);
    }
}

#[test]
fn f3_a_sibling_with_the_same_prefix_is_outside() {
    let place = Place::new();
    assert_outside(&place, "../root2/canary");
    let root2 = place.temp.path().join("root2");
    place.link(&root2, "sibling");
    assert_eq!(place.open("sibling/canary", READ).unwrap_err(), Fault::Outside);
}

#[test]
fn f4_f5_links_that_leave_the_root_are_refused_alike_whether_or_not_the_target_exists() {
    let place = Place::new();
    let outside = place.temp.path().join("outside");
    place.link(outside.join("canary"), "file");
    place.link(outside.join("new"), "dangling");
    place.link("../outside/canary", "relative");
    place.link(&outside, "dir");
    place.link("..", "up");
    let before = place.outside();
    let paths =
        ["file", "dangling", "relative", "dir/canary", "dir/new", "up/outside/canary", "up/nope"];
    for path in paths {
        for how in [READ, WRITE, CREATE, TRUNCATE] {
            assert_eq!(place.open(path, how).unwrap_err(), Fault::Outside, "{path}");
        }
        assert_eq!(place.tree.stat(&place.root, path, Follow::Yes), Err(Fault::Outside), "{path}");
    }
    for path in ["dir/x", "up/x"] {
        assert_eq!(place.tree.create_dir(&place.root, path), Err(Fault::Outside), "{path}");
        assert_eq!(place.tree.symlink("y", &place.root, path), Err(Fault::Outside), "{path}");
        assert_eq!(place.tree.rename(&place.root, "file", &place.root, path), Err(Fault::Outside));
    }
    assert_eq!(place.outside(), before);
}

#[test]
fn f4_the_link_itself_is_never_followed_where_that_was_not_asked() {
    let place = Place::new();
    place.link("../outside/canary", "link");
    let open = place.tree.open(&place.root, "link", Follow::No, WRITE);
    assert_eq!(open.unwrap_err(), os(Errno::LOOP));
    let facts = place.tree.stat(&place.root, "link", Follow::No).unwrap();
    assert_eq!(facts.kind, Kind::Link);
    let before = place.outside();
    place.tree.set_times(&place.root, "link", Follow::No, &TIMES).unwrap();
    place.tree.remove_file(&place.root, "link").unwrap();
    assert_eq!(place.outside(), before);
}

#[test]
fn f6_loops_and_long_chains_of_links_end() {
    let place = Place::new();
    place.link("loop", "loop");
    place.link("l41", "l40");
    place.file("l41", b"end");
    for index in 0..40 {
        place.link(format!("l{}", index + 1), &format!("l{index}"));
    }
    assert_eq!(place.open("loop", READ).unwrap_err(), os(Errno::LOOP));
    assert_eq!(place.open("loop/x", CREATE).unwrap_err(), os(Errno::LOOP));
    assert_eq!(place.open("l0", READ).unwrap_err(), os(Errno::LOOP));
    assert_eq!(place.open("l1", READ).map(file).unwrap().read_at(9, 0).unwrap(), b"end");
}

#[test]
fn f6_a_link_that_doubles_its_steps_ends() {
    let place = Place::new();
    place.tree.create_dir(&place.root, "d").unwrap();
    let long = "d/../".repeat(500);
    place.link(format!("{long}l0"), "l1");
    place.link(format!("{long}l1"), "l0");
    assert_eq!(place.open("l0", READ).unwrap_err(), os(Errno::LOOP));
}

#[test]
fn f7_guests_make_no_links_that_leave() {
    let place = Place::new();
    for target in ["/etc/passwd", "..", "../outside/canary", "a/../../outside", ""] {
        let made = place.tree.symlink(target, &place.root, "link");
        assert_eq!(made, Err(Fault::LinkTarget), "{target}");
    }
    place.file("f", b"here");
    place.tree.symlink("f", &place.root, "link").unwrap();
    assert_eq!(place.open("link", READ).map(file).unwrap().read_at(9, 0).unwrap(), b"here");
    assert_eq!(place.tree.read_link(&place.root, "link").unwrap(), "f");
    place.link("/etc/passwd", "foreign");
    assert_eq!(place.tree.read_link(&place.root, "foreign"), Err(Fault::Outside));
}

#[test]
fn f8_a_link_retargeted_meanwhile_never_leads_out() {
    let place = Place::new();
    std::fs::create_dir(place.path("real")).unwrap();
    std::fs::write(place.path("real/canary"), b"inside").unwrap();
    let outside = place.temp.path().join("outside");
    raced(&place, "d/canary", |turn| {
        let target = if turn % 2 == 0 { outside.clone() } else { "real".into() };
        symlink(target, place.path("next")).unwrap();
        std::fs::rename(place.path("next"), place.path("d")).unwrap();
    });
}

#[test]
fn f8_a_file_swapped_for_a_link_meanwhile_never_leads_out() {
    let place = Place::new();
    raced(&place, "f", |turn| {
        if turn % 2 == 0 {
            symlink("../outside/canary", place.path("next")).unwrap();
        } else {
            std::fs::write(place.path("next"), b"inside").unwrap();
        }
        std::fs::rename(place.path("next"), place.path("f")).unwrap();
    });
}

#[test]
fn f9_a_directory_moved_meanwhile_never_leads_out() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("a/b")).unwrap();
    std::fs::create_dir_all(place.path("x/y/z")).unwrap();
    raced(&place, "a/b/../../../outside/canary", |turn| {
        let (from, to) = if turn % 2 == 0 { ("a/b", "x/y/z/b") } else { ("x/y/z/b", "a/b") };
        std::fs::rename(place.path(from), place.path(to)).unwrap();
    });
}

#[test]
fn f15_contradictions_create_nothing() {
    let place = Place::new();
    place.file("f", b"x");
    let both = OpenHow { create: true, directory: true, ..READ };
    assert_eq!(place.open("new", both).unwrap_err(), os(Errno::INVAL));
    assert_eq!(place.open("new/", CREATE).unwrap_err(), os(Errno::ISDIR));
    for path in ["f/", "f/.", "f/..", "f/x", "f/../f"] {
        for how in [READ, CREATE] {
            assert_eq!(place.open(path, how).unwrap_err(), os(Errno::NOTDIR), "{path}");
        }
        assert_eq!(place.tree.stat(&place.root, path, Follow::No), Err(os(Errno::NOTDIR)));
    }
    assert_eq!(place.tree.remove_file(&place.root, "f/"), Err(os(Errno::NOTDIR)));
    assert_eq!(place.tree.rename(&place.root, "f", &place.root, "g/"), Err(os(Errno::NOTDIR)));
    assert_eq!(place.tree.symlink("x", &place.root, "new/"), Err(os(Errno::NOENT)));
    assert_eq!(names(&place, &place.root), ["f"]);
}

#[test]
fn f16_f17_what_is_no_path_is_refused_before_the_system_sees_it() {
    let place = Place::new();
    place.file("a", b"x");
    for answer in every_answer(&place, &place.root, "a\0b") {
        assert_eq!(answer, os(Errno::INVAL));
    }
    for answer in every_answer(&place, &place.root, "") {
        assert_eq!(answer, os(Errno::NOENT));
    }
    for path in ["a".repeat(5_000), "a/".repeat(1 << 19), "é".repeat(2_500)] {
        for answer in every_answer(&place, &place.root, &path) {
            assert_eq!(answer, os(Errno::NAMETOOLONG));
        }
    }
    assert_eq!(place.open(&"a".repeat(256), CREATE).unwrap_err(), os(Errno::NAMETOOLONG));
    assert_eq!(names(&place, &place.root), ["a"]);
}

#[test]
fn f18_f29_strange_names_are_listed_as_they_are_and_bad_ones_are_an_error() {
    let place = Place::new();
    let strange = ["\u{202e}gpj", "a\nb", "e\u{1b}[2J"];
    for name in strange {
        std::fs::write(place.path(name), b"").unwrap();
    }
    assert_eq!(names(&place, &place.root).len(), strange.len());
    let bad = std::ffi::OsStr::from_bytes(b"bad\xff");
    std::fs::write(place.temp.path().join("root").join(bad), b"").unwrap();
    let mut listing = place.tree.list(&place.root).unwrap();
    let mut listed = Vec::new();
    loop {
        match listing.next_entry() {
            Ok(None) => break,
            answer => listed.push(answer.map(|entry| entry.map(|Entry { name, .. }| name))),
        }
    }
    assert_eq!(listed.len(), strange.len() + 1);
    assert!(listed.contains(&Err(os(Errno::ILSEQ))));
}

#[test]
fn f19_f21_encoded_dots_and_slashes_are_names() {
    let place = Place::new();
    let before = place.outside();
    for path in ["%2e%2e%2foutside%2fcanary", "．．／outside", "..\u{2215}outside", "..%2foutside"]
    {
        place.open(path, CREATE).unwrap();
        assert!(place.path(path).is_file(), "{path}");
    }
    assert_eq!(place.outside(), before);
}
