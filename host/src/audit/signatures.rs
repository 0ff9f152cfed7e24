//! Tests: what signatures show that hashes alone do not.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File};
use clawhost_core::digest;
use clawhost_core::limits::AUDIT_ENDS_NAMED_MAX;
use clawhost_core::reply::ToolReply;
use serde_json::Value;

use super::*;

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32]).unwrap()
}

fn trust(seed: u8) -> Trust {
    Trust { keys: vec![key(seed).public()], all_signed: true }
}

/// A folder with one chain of `calls` calls, and its name.
fn signed(calls: usize) -> (tempfile::TempDir, Dir, String) {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
    let terms = Terms { key: Some(key(7)), ..Terms::default() };
    let log = Arc::new(AuditLog::open(&dir, terms).unwrap());
    for call in 0..calls {
        let span = CallSpan::open(&log, &call.to_string(), "p", "t", "sha256:0", &[]).unwrap();
        span.close(&Ok(ToolReply::default())).unwrap();
    }
    drop(log);
    let chain = std::fs::read_to_string(folder.path().join("newest")).unwrap();
    (folder, dir, chain)
}

fn report(dir: &Dir, trust: &Trust) -> ChainReport {
    verify(dir, trust).unwrap().remove(0)
}

fn check(dir: &Dir, trust: &Trust) {
    let reports = verify(dir, trust).unwrap();
    assert!(reports.iter().all(|report| report.broken.is_none()), "{reports:?}");
}

/// Edits one line and makes every hash after it, and the head, fit again.
fn forge(folder: &Path, chain: &str, at: usize, from: &str, to: &str) {
    let path = folder.join(format!("{chain}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert!(lines[at].contains(from), "{}", lines[at]);
    lines[at] = lines[at].replace(from, to);
    for next in at + 1..lines.len() {
        let mut record: Value = serde_json::from_str(&lines[next]).unwrap();
        record["prev"] = digest::of_bytes(lines[next - 1].as_bytes()).into();
        lines[next] = digest::canonical(&record);
    }
    let last = digest::of_bytes(lines.last().unwrap().as_bytes());
    let head = format!("{:020} {last}\n", lines.len());
    std::fs::write(folder.join(format!("{chain}.head")), head).unwrap();
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    std::fs::write(path, text).unwrap();
}

#[test]
fn every_record_of_a_chain_that_ended_is_signed() {
    // More than one batch holds.
    let (_folder, dir, _) = signed(700);
    let report = report(&dir, &trust(7));
    assert_eq!((report.broken, report.records, report.signed), (None, 1_401, Some(1_401)));
}

#[tokio::test]
async fn whoever_waits_finds_all_signed_while_the_log_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
    let terms = Terms { key: Some(key(7)), ..Terms::default() };
    let log = Arc::new(AuditLog::open(&dir, terms).unwrap());
    for _ in 0..20 {
        drop(CallSpan::open(&log, "1", "p", "t", "sha256:0", &[]).unwrap());
        log.flush(Duration::from_secs(30)).await;
        let report = report(&dir, &trust(7));
        assert_eq!((report.broken, report.signed), (None, Some(report.records)));
    }
}

#[test]
fn a_chain_that_was_written_anew_from_some_line_on_shows() {
    let (folder, dir, chain) = signed(3);
    forge(folder.path(), &chain, 2, "\"ok\"", "\"no\"");
    // The hashes fit.
    let text = std::fs::read_to_string(folder.path().join(format!("{chain}.jsonl"))).unwrap();
    std::fs::write(folder.path().join(format!("{chain}.signatures")), "").unwrap();
    let own = Trust { all_signed: false, ..trust(7) };
    let unsigned = report(&dir, &own);
    assert_eq!((unsigned.broken, unsigned.signed), (None, Some(0)), "{text}");
    let broken = report(&dir, &trust(7)).broken.unwrap();
    assert!(broken.starts_with("lines 1 to 7 are not signed"), "{broken}");
    let (folder, dir, chain) = signed(3);
    forge(folder.path(), &chain, 2, "\"ok\"", "\"no\"");
    let broken = report(&dir, &trust(7)).broken.unwrap();
    assert!(broken.contains("not what was signed"), "{broken}");
}

#[test]
fn another_key_or_none_is_not_taken_for_ours() {
    let (folder, dir, chain) = signed(1);
    assert!(report(&dir, &trust(8)).broken.unwrap().contains("not trusted"));
    let named = key(7).public().to_string();
    // Somebody else's key that says it is ours.
    forge(folder.path(), &chain, 0, &named, &key(8).public().to_string());
    assert!(report(&dir, &trust(8)).broken.is_some());
    let (folder, dir, chain) = signed(1);
    forge(folder.path(), &chain, 0, &format!("\"signed_with\":\"{named}\","), "");
    assert!(report(&dir, &trust(7)).broken.unwrap().contains("not what was signed"));
    let (folder, dir, chain) = signed(1);
    let path = folder.path().join(format!("{chain}.signatures"));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    line["signature"] = serde_json::json!("AAAA");
    std::fs::write(&path, format!("{line}\n")).unwrap();
    assert!(report(&dir, &trust(7)).broken.unwrap().contains("signature"));
}

/// Something that happens to a file that held a text.
type Damage = dyn Fn(&Path, &str);

/// The chain after it is told of too.
#[test]
fn a_file_that_cannot_be_read_breaks_its_chain_and_no_other() {
    let damage: [&Damage; 5] = [
        &|file, old| std::fs::write(file, [b"\xff", old.as_bytes()].concat()).unwrap(),
        &|file, old| std::fs::write(file, [old.as_bytes(), b"nothing\n"].concat()).unwrap(),
        &|file, old| std::fs::write(file, old.replacen('{', "[", 1)).unwrap(),
        &|file, _| {
            std::fs::remove_file(file).unwrap();
            std::fs::create_dir(file).unwrap();
        },
        &|file, _| {
            std::fs::remove_file(file).unwrap();
            std::os::unix::fs::symlink("nowhere", file).unwrap();
        },
    ];
    for (number, damage) in damage.iter().enumerate() {
        for suffix in ["signatures", "jsonl"] {
            let (folder, dir, chain) = signed(1);
            drop(opened(&dir, None));
            let file = folder.path().join(format!("{chain}.{suffix}"));
            damage(&file, &std::fs::read_to_string(&file).unwrap());
            let reports = verify(&dir, &trust(7)).unwrap();
            let broken: Vec<bool> = reports.iter().map(|it| it.broken.is_some()).collect();
            assert_eq!(broken, [true, false], "{number} {suffix}: {reports:?}");
        }
    }
}

#[test]
fn a_chain_under_the_name_of_another_and_a_name_of_no_chain_are_found() {
    let (folder, dir, chain) = signed(1);
    for suffix in ["jsonl", "head"] {
        let file = |chain: &str| folder.path().join(format!("{chain}.{suffix}"));
        std::fs::copy(file(&chain), file("1-1-1")).unwrap();
    }
    let broken = report(&dir, &Trust::default()).broken.unwrap();
    assert!(broken.contains("another name"), "{broken}");
    for newest in ["", "\n"] {
        std::fs::write(folder.path().join("newest"), newest).unwrap();
        let missing = verify(&dir, &trust(7)).unwrap().pop().unwrap();
        assert!(missing.broken.unwrap().contains("names none"));
    }
}

#[test]
fn what_a_killed_host_left_unsigned_is_counted_and_half_a_line_is_none() {
    let (folder, dir, chain) = signed(1);
    let path = folder.path().join(format!("{chain}.signatures"));
    let text = std::fs::read_to_string(&path).unwrap();
    // That of the first record, and half of the next.
    let half = text.find('\n').unwrap() + text.len() / 8;
    std::fs::write(&path, &text[..half]).unwrap();
    let told = report(&dir, &Trust { all_signed: false, ..trust(7) });
    assert_eq!((told.broken, told.records, told.signed), (None, 3, Some(1)));
    // Where a key is named, it takes the chain after it, which says what it found.
    assert!(report(&dir, &trust(7)).broken.unwrap().contains("was killed"));
    drop(AuditLog::open(&dir, Terms { key: Some(key(7)), ..Terms::default() }).unwrap());
    assert_eq!(report(&dir, &trust(7)).broken, None);
}

/// A chain by our key that is there now, and the name of it.
fn opened(dir: &Dir, retention: Option<Duration>) -> AuditLog {
    AuditLog::open(dir, Terms { key: Some(key(7)), retention, ..Terms::default() }).unwrap()
}

fn newest(dir: &Dir) -> String {
    dir.read_to_string("newest").unwrap()
}

/// Makes a chain what its host leaves that is killed before more than its first record is signed.
fn kill(folder: &Path, chain: &str) {
    let signatures = folder.join(format!("{chain}.signatures"));
    let text = std::fs::read_to_string(&signatures).unwrap();
    std::fs::write(signatures, text.split_inclusive('\n').next().unwrap()).unwrap();
    std::fs::write(folder.join(format!("{chain}.unnamed")), "").unwrap();
}

/// Takes away all signatures of a chain, and lets the next name its end.
fn unsign(folder: &Path, chain: &str) {
    std::fs::write(folder.join(format!("{chain}.signatures")), "").unwrap();
    std::fs::write(folder.join(format!("{chain}.unnamed")), "").unwrap();
}

#[test]
fn a_chain_is_made_with_its_first_record_signed() {
    let (_folder, dir, _) = signed(0);
    let log = opened(&dir, None);
    let told = verify(&dir, &trust(7)).unwrap().pop().unwrap();
    assert_eq!((told.broken, told.records, told.signed), (None, 1, Some(1)));
    drop(log);
}

#[test]
fn a_run_that_is_put_into_the_log_does_not_hold_though_the_next_start_names_it() {
    let (folder, dir, chain) = signed(1);
    let (text, put) = (dir.read_to_string(format!("{chain}.jsonl")).unwrap(), "1-1-1");
    // With the name and the key that are right, and calls that nobody made.
    std::fs::write(folder.path().join(format!("{put}.jsonl")), text).unwrap();
    forge(folder.path(), put, 0, &chain, put);
    unsign(folder.path(), put);
    drop(opened(&dir, None));
    let named = super::files::first_record(&dir, &newest(&dir)).unwrap();
    assert_eq!(named["ended_chains"][0]["chain"], put);
    let reports = verify(&dir, &trust(7)).unwrap();
    let broken: Vec<_> = reports.iter().filter(|it| it.broken.is_some()).collect();
    assert!(broken.len() == 1 && broken[0].chain == put, "{reports:?}");
}

#[test]
fn what_was_tampered_with_is_not_removed_as_old() {
    let old = Some(Duration::from_secs(3_600));
    let (folder, dir, chain) = signed(1);
    let last = 2;
    forge(folder.path(), &chain, last, "\"time\":\"20", "\"time\":\"19");
    drop(opened(&dir, None));
    drop(opened(&dir, old));
    assert!(report(&dir, &trust(7)).broken.is_some_and(|it| it.contains("not what was signed")));
    // Where only the end was not signed, and nobody can tell: what is signed says how old it is.
    let (folder, dir, chain) = signed(1);
    for at in [1, last] {
        forge(folder.path(), &chain, at, "\"time\":\"20", "\"time\":\"19");
    }
    kill(folder.path(), &chain);
    drop(opened(&dir, None));
    drop(opened(&dir, old));
    assert!(folder.path().join(format!("{chain}.jsonl")).exists());
    check(&dir, &trust(7));
}

#[test]
fn a_later_chain_vouches_for_no_more_than_a_killed_host_leaves_unsigned() {
    for (year, holds) in [("\"time\":\"20", true), ("\"time\":\"19", false)] {
        let (folder, dir, chain) = signed(2);
        forge(folder.path(), &chain, 2, "\"time\":\"20", year);
        kill(folder.path(), &chain);
        drop(opened(&dir, None));
        assert_eq!(report(&dir, &trust(7)).broken.is_none(), holds, "{year}");
    }
}

#[test]
fn a_first_record_that_is_not_signed_vouches_for_nothing() {
    let (folder, dir, chain) = signed(2);
    kill(folder.path(), &chain);
    drop(opened(&dir, None));
    assert_eq!(report(&dir, &trust(7)).broken, None);
    let later = newest(&dir);
    unsign(folder.path(), &later);
    let reports = verify(&dir, &trust(7)).unwrap();
    assert!(reports.iter().all(|report| report.broken.is_some()), "{reports:?}");
}

#[tokio::test]
async fn every_killed_host_is_named_by_a_later_chain_and_only_once() {
    let (folder, dir, first) = signed(1);
    let (second, others, _) = beside(folder.path(), &dir).await;
    drop(opened(&dir, None));
    drop(CallSpan::open(&second, "1", "p", "t", "sha256:0", &[]).unwrap());
    drop(second);
    for chain in [&first, &others] {
        kill(folder.path(), chain);
    }
    let broken = |dir: &Dir| {
        verify(dir, &trust(7)).unwrap().iter().filter(|report| report.broken.is_some()).count()
    };
    assert!(broken(&dir) > 0);
    drop(opened(&dir, None));
    assert_eq!(broken(&dir), 0, "{:?}", verify(&dir, &trust(7)));
    drop(opened(&dir, None));
    let named = |record: &Value| record.get("ended_chains").is_some();
    assert_eq!(records(&dir).unwrap().iter().filter(|record| named(record)).count(), 1);
    let names = super::files::file_names(&dir).unwrap();
    let left: Vec<_> = names.iter().filter_map(|name| name.strip_suffix(".unnamed")).collect();
    assert_eq!(left, [newest(&dir)]);
}

#[test]
fn a_chain_that_grows_is_not_named_as_one_that_ended() {
    let (folder, dir, _) = signed(1);
    let growing = opened(&dir, None);
    let unnamed = folder.path().join(format!("{}.unnamed", newest(&dir)));
    for _ in 0..2 {
        drop(opened(&dir, None));
        assert!(unnamed.exists());
    }
    drop(growing);
    drop(opened(&dir, None));
    assert!(!unnamed.exists());
    check(&dir, &trust(7));
}

/// A log of our key that runs beside others, with one signed record, and a way back to that.
async fn beside(folder: &Path, dir: &Dir) -> (Arc<AuditLog>, String, impl FnOnce()) {
    let log = Arc::new(opened(dir, None));
    let chain = newest(dir);
    log.flush(Duration::from_secs(30)).await;
    let files = [".jsonl", ".head", ".signatures"].map(|it| folder.join(format!("{chain}{it}")));
    let then = files.map(|file| (std::fs::read(&file).unwrap(), file));
    let cut = || then.into_iter().for_each(|(bytes, file)| std::fs::write(file, bytes).unwrap());
    (log, chain, cut)
}

#[tokio::test]
async fn the_end_of_a_chain_that_ended_beside_others_cannot_be_cut_unseen() {
    let (folder, dir, _) = signed(0);
    let (log, chain, cut) = beside(folder.path(), &dir).await;
    // The newest when the next host starts.
    drop(opened(&dir, None));
    drop(CallSpan::open(&log, "1", "p", "t", "sha256:0", &[]).unwrap());
    drop(log);
    drop(opened(&dir, None));
    check(&dir, &trust(7));
    cut();
    let reports = verify(&dir, &trust(7)).unwrap();
    let broken = reports.into_iter().find(|report| report.chain == chain).unwrap().broken;
    assert_eq!(broken.as_deref(), Some("a later chain knows it with another record 3"));
}

#[test]
fn what_a_host_leaves_that_is_killed_as_it_names_its_chain_goes_with_the_next_start() {
    let (folder, dir, chain) = signed(0);
    let growing = opened(&dir, None);
    let left = |chain: &str| folder.path().join(format!("{chain}.newest"));
    let (dead, living) = (left(&chain), left(&newest(&dir)));
    kill(folder.path(), &chain);
    std::fs::write(&dead, &chain).unwrap();
    std::fs::write(&living, "").unwrap();
    drop(opened(&dir, None));
    assert!(!dead.exists() && living.exists());
    drop(growing);
    drop(opened(&dir, None));
    assert!(!living.exists());
}

#[test]
fn what_one_start_has_no_room_to_name_the_next_does_and_what_is_gone_is_forgotten() {
    let (_folder, dir, _) = signed(0);
    for number in 0..AUDIT_ENDS_NAMED_MAX {
        dir.write(format!("1-1-{number}.unnamed"), "").unwrap();
    }
    // With the chain that is there, one more than a start takes; and each start leaves that of its own chain.
    for left in [2, 1] {
        drop(opened(&dir, None));
        let names = super::files::file_names(&dir).unwrap();
        assert_eq!(names.iter().filter(|name| name.ends_with(".unnamed")).count(), left);
    }
    check(&dir, &trust(7));
}

#[tokio::test]
async fn what_a_copy_misses_before_the_first_signature_is_signed_too() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
    let copies = vec![Copy::anywhere(1)];
    drop(AuditLog::open(&dir, Terms { key: Some(key(7)), copies, retention: None }).unwrap());
    let report = report(&dir, &trust(7));
    assert_eq!((report.broken, report.signed), (None, Some(2)));
}

#[test]
fn only_a_signed_record_says_what_was_removed() {
    let (folder, dir, gone) = signed(1);
    drop(opened(&dir, None));
    let now = crate::clock::now_ms();
    while crate::clock::now_ms() <= now + 1 {}
    drop(opened(&dir, Some(Duration::ZERO)));
    assert!(!folder.path().join(format!("{gone}.jsonl")).exists());
    let missing =
        |dir: &Dir| verify(dir, &trust(7)).unwrap().iter().any(|report| report.chain == gone);
    assert!(!missing(&dir));
    unsign(folder.path(), &newest(&dir));
    assert!(missing(&dir));
}

#[test]
fn a_host_that_was_killed_before_its_first_record_left_no_chain() {
    let (folder, dir, chain) = signed(1);
    let nothing = "9999999999999-1-0";
    for suffix in [".jsonl", ".head"] {
        std::fs::write(folder.path().join(format!("{nothing}{suffix}")), "").unwrap();
    }
    assert_eq!(verify(&dir, &trust(7)).unwrap().len(), 1);
    drop(opened(&dir, None));
    let first = super::files::first_record(&dir, &newest(&dir)).unwrap();
    assert_eq!(first["previous_chain"]["chain"], *chain);
    // One that is named is missed.
    dir.write("newest", nothing).unwrap();
    assert!(verify(&dir, &trust(7)).unwrap().iter().any(|report| report.chain == nothing));
}

/// Makes a chain what its host leaves that is killed right after the first record, as it stores the head.
fn begin_only(folder: &Path, chain: &str, older: &str) {
    let log = folder.join(format!("{chain}.jsonl"));
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(log, text.split_inclusive('\n').next().unwrap()).unwrap();
    std::fs::remove_file(folder.join(format!("{chain}.signatures"))).unwrap();
    for (name, text) in [(format!("{chain}.head"), ""), (format!("{chain}.unnamed"), "")] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    std::fs::write(folder.join("newest"), older).unwrap();
}

#[test]
fn a_host_that_was_killed_before_its_first_head_left_a_chain_that_was_begun() {
    let (folder, dir, older) = signed(1);
    drop(opened(&dir, None));
    begin_only(folder.path(), &newest(&dir), &older);
    let own = Trust { all_signed: false, ..trust(7) };
    let told = verify(&dir, &own).unwrap().pop().unwrap();
    assert_eq!((told.broken, told.records, told.signed), (None, 1, Some(0)));
    assert!(told.begun);
    // As of every killed host, a later chain has to name what it left.
    let told = verify(&dir, &trust(7)).unwrap().pop().unwrap().broken.unwrap();
    assert!(told.starts_with("lines 1 to 1 are not signed"), "{told}");
    drop(opened(&dir, None));
    check(&dir, &trust(7));
}

#[test]
fn the_first_host_of_all_may_be_killed_before_its_first_head_too() {
    let (folder, dir, chain) = signed(0);
    begin_only(folder.path(), &chain, "");
    dir.remove_file("newest").unwrap();
    let own = Trust { all_signed: false, ..trust(7) };
    check(&dir, &own);
    drop(opened(&dir, None));
    check(&dir, &trust(7));
}

#[test]
fn hosts_without_calls_do_not_lose_the_name_of_the_newest_chain_unseen() {
    let (_folder, dir, _) = signed(0);
    drop(opened(&dir, None));
    let own = Trust { all_signed: false, ..trust(7) };
    check(&dir, &own);
    dir.remove_file("newest").unwrap();
    let told = verify(&dir, &own).unwrap().pop().unwrap();
    assert_eq!((told.chain.as_str(), told.broken.is_some()), ("newest", true));
}

#[test]
fn no_chain_that_went_on_passes_for_one_that_was_only_begun() {
    type Trace = fn(&Path, &str, &str);
    let own = Trust { all_signed: false, ..trust(7) };
    let traces: [(Trace, &str); 4] = [
        (
            |folder, chain, log| {
                std::fs::write(folder.join(format!("{chain}.jsonl")), log).unwrap()
            },
            "its head is damaged",
        ),
        (
            |folder, chain, _| {
                std::fs::write(folder.join(format!("{chain}.signatures")), "").unwrap()
            },
            "its head is damaged",
        ),
        (
            |folder, chain, _| std::fs::write(folder.join("newest"), chain).unwrap(),
            "its head is damaged",
        ),
        (
            |folder, chain, _| std::fs::remove_file(folder.join(format!("{chain}.head"))).unwrap(),
            "its head is missing",
        ),
    ];
    for (trace, told) in traces {
        let (folder, dir, older) = signed(1);
        let log = Arc::new(opened(&dir, None));
        drop(CallSpan::open(&log, "1", "p", "t", "sha256:0", &[]).unwrap());
        drop(log);
        let chain = newest(&dir);
        let text = dir.read_to_string(format!("{chain}.jsonl")).unwrap();
        begin_only(folder.path(), &chain, &older);
        assert_eq!(verify(&dir, &own).unwrap().pop().unwrap().broken, None);
        trace(folder.path(), &chain, &text);
        let broken = verify(&dir, &own).unwrap().pop().unwrap().broken;
        assert_eq!(broken.as_deref(), Some(told));
    }
    // One that a later chain names.
    let (folder, dir, chain) = signed(1);
    drop(opened(&dir, None));
    begin_only(folder.path(), &chain, &newest(&dir));
    for trust in [own, trust(7)] {
        let broken = report(&dir, &trust).broken.unwrap();
        assert_eq!(broken, "a later chain knows it with another record 3");
    }
}

#[test]
fn what_is_checked_while_hosts_start_holds() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
    let starts = dir.try_clone().unwrap();
    let hosts = std::thread::spawn(move || (0..100).for_each(|_| drop(opened(&starts, None))));
    while !hosts.is_finished() {
        check(&dir, &Trust { all_signed: false, ..trust(7) });
    }
    hosts.join().unwrap();
}

#[test]
fn a_head_that_cannot_be_written_stops_no_signature() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
    dir.write("head", "").unwrap();
    let read_only = dir.open("head").unwrap().into_std();
    let files = (dir.create("signatures").unwrap(), read_only);
    let first = digest::sha256(b"record");
    let (signer, is_signed) =
        super::sign::Signer::start("chain", files, key(7), first, || ()).unwrap();
    assert!(is_signed);
    drop(signer);
    assert_eq!(dir.read_to_string("signatures").unwrap().lines().count(), 1);
}

/// Starts a signer whose signatures go where there is no room, and returns what reads them and the bytes before them.
fn without_room(dir: &Dir) -> (super::sign::Signer, UnixStream, usize) {
    let (mut full, reader) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    let bytes = std::iter::repeat_with(|| full.write_all(b"\n")).take_while(Result::is_ok).count();
    let files =
        (File::from_std(OwnedFd::from(full).into()), dir.create("head").unwrap().into_std());
    let first = digest::sha256(b"record");
    let (signer, is_signed) =
        super::sign::Signer::start("chain", files, key(7), first, || ()).unwrap();
    assert!(!is_signed && !signer.wait(Duration::from_secs(30)));
    (signer, reader, bytes)
}

#[test]
fn what_a_full_disk_kept_from_being_signed_is_signed_once_there_is_room() {
    type Then = fn(super::sign::Signer) -> Option<super::sign::Signer>;
    let ways: [(&str, Then); 3] = [
        ("by itself", Some),
        ("for who waits", |signer| signer.wait(Duration::from_secs(30)).then_some(signer)),
        ("at the end", |_| None),
    ];
    for (way, then) in ways {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let (signer, mut reader, bytes) = without_room(&dir);
        reader.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        reader.read_exact(&mut vec![0; bytes]).unwrap();
        let signer = then(signer);
        let mut line = String::new();
        BufReader::new(&reader).read_line(&mut line).unwrap();
        assert!(line.contains("\"records\":1"), "{way}: {line}");
        drop(signer);
    }
}

#[test]
fn a_receipt_shows_its_record_and_no_other() {
    let (_folder, dir, chain) = signed(3);
    let wanted = |record: &Value| record["event"] == "call.finished" && record["call"] == "1";
    let receipt = Receipt::find(&dir, &chain, wanted).unwrap().unwrap();
    assert_eq!(receipt.verify(&key(7).public()).unwrap()["call"], "1");
    assert_eq!(receipt.verify(&key(8).public()), Err(NoProof::Signature));
    let text = serde_json::to_string(&receipt).unwrap();
    let altered = |from: &str, to: &str| {
        let altered: Receipt = serde_json::from_str(&text.replacen(from, to, 1)).unwrap();
        assert_ne!(altered, receipt, "{from}");
        altered.verify(&key(7).public()).unwrap_err()
    };
    assert_eq!(altered(r#"\"ok\""#, r#"\"no\""#), NoProof::Record);
    assert_eq!(altered(r#"\"seq\":4"#, r#"\"seq\":2"#), NoProof::Record);
    assert_eq!(altered(r#""first":"#, r#""first":1"#), NoProof::Signature);
    assert!(Receipt::find(&dir, &chain, |_| false).unwrap().is_none());
}
