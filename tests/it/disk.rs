//! What becomes of a host whose disk is full or damaged, or shared with another host.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clawhost::audit::Trust;
use clawhost::memory::{KEYS_MIGRATIONS, Keys, OwnKeys, Space};
use clawhost::state::{Database, DatabaseError};
use clawhost_core::error::ErrorKind;
use clawhost_tests::{Cli, Client};
use serde_json::{Value, json};

use crate::cli::PROGRAM;

/// Calls until a full disk has to show.
const CALLS_UNTIL_FULL: usize = 300;
/// Entries of a store that is damaged.
const ENTRIES: usize = 40;
/// Places of a file at which it is damaged.
const PLACES: usize = 60;
/// Entries that each of two hosts sets.
const SET_BY_EACH: usize = 50;

const MANIFEST: &str = r#"claw: "0.3.0"
kind: Claw
metadata: {name: disk}
spec:
  identity: {inline: {personality: Remembers., autonomy: autonomous}}
  providers:
    - inline: {protocol: openai-compatible, endpoint: "http://127.0.0.1:9/v1", model: none, auth: {type: none}}
  tools:
    - {name: write-file, sandbox: claw://sandbox/workspace}
    - {name: key-value-store, sandbox: claw://sandbox/memory}
  policies:
    - inline: {name: all, rules: [{id: all, action: allow, scope: all}]}
"#;

fn prepared() -> Cli {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", MANIFEST);
    cli
}

/// Returns what runs `then`, a line of the shell, with the state on a disk of 8 MiB, `disk`, in a namespace of its own;
/// the program is `$0` there. Nothing where the system lets nobody have one.
fn with_a_small_disk(cli: &Cli, then: &str) -> Option<Command> {
    let may = Command::new("unshare").args(["-Urm", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        println!("not tried: nobody may make a namespace here");
        return None;
    }
    fs::create_dir_all(cli.here().join("disk")).unwrap();
    let script =
        format!("mount -t tmpfs -o size=8m,mode=700 none disk && cp -a \"$1\"/. disk && {then}");
    let like = cli.command(&[]);
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-c", &script, PROGRAM]).arg(cli.state()).current_dir(cli.here());
    command.env_clear().envs(like.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    Some(command)
}

/// Starts a host whose state is on a small disk, and returns the way to that disk from here.
fn on_a_small_disk(cli: &Cli) -> Option<(Client, PathBuf)> {
    let run = "exec \"$0\" run claw.yaml --stdio --state disk";
    let mut command = with_a_small_disk(cli, run)?;
    for pipe in [Command::stdin, Command::stdout, Command::stderr] {
        pipe(&mut command, std::process::Stdio::piped());
    }
    let client = Client::ready(cli.start_with(&mut command));
    let disk = cli.here().join("disk");
    let seen = format!("/proc/{}/root{}", client.child.id(), disk.to_str().unwrap());
    Some((client, PathBuf::from(seen)))
}

fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    while file.write_all(&[0; 4_096]).is_ok() {}
}

#[test]
fn d3_a_full_disk_refuses_calls_and_room_on_it_lets_them_run_again() {
    let cli = prepared();
    let Some((mut host, disk)) = on_a_small_disk(&cli) else { return };
    let mut number = 0;
    let mut write = |host: &mut Client| {
        number += 1;
        let path = format!("{number}.txt");
        let answer = host.call("write_file", &json!({"path": path, "content": "x"}));
        (answer.to_string(), cli.here().join("workspace").join(path).exists())
    };
    let refused = |answer: &str| answer.contains("could not be recorded");
    assert!(write(&mut host).1);
    fill(&disk.join("filler"));
    // The room that is kept takes a few records more; a call that begins in it ends in it.
    let is_full = (0..CALLS_UNTIL_FULL).any(|_| {
        let (answer, ran) = write(&mut host);
        assert_ne!(refused(&answer), ran, "{answer}");
        !ran
    });
    assert!(is_full, "every call was recorded");
    for _ in 0..3 {
        let (answer, ran) = write(&mut host);
        assert!(refused(&answer) && !ran, "{answer}");
    }
    fs::remove_file(disk.join("filler")).unwrap();
    let (answer, ran) = write(&mut host);
    assert!(!refused(&answer) && ran, "{answer}");
    let audit = Dir::open_ambient_dir(disk.join("audit"), ambient_authority()).unwrap();
    let key = cli.run(&["audit", "key"]).stdout;
    // It runs: the last moment is not signed yet.
    let trust = Trust { keys: vec![key.trim().parse().unwrap()], all_signed: false };
    let reports = clawhost::audit::verify(&audit, &trust).unwrap();
    assert_eq!(reports.len(), 1);
    assert!(reports[0].broken.is_none(), "{reports:?}");
    assert_eq!(reports[0].unfinished_calls, 0, "{reports:?}");
}

#[test]
fn d3_a_call_that_a_full_disk_keeps_out_of_the_record_fails_by_the_disk() {
    let cli = prepared();
    let mut refused = 0;
    // A start takes some of the room, so nobody knows with how much of it the call is the first to be refused.
    for free_kib in (0..=256).step_by(16) {
        let then = format!(
            "{{ cat /dev/zero > disk/filler; truncate -s -{free_kib}K disk/filler; \
             exec \"$0\" call claw.yaml write_file path={free_kib} content=x --state disk; }}"
        );
        let Some(mut command) = with_a_small_disk(&cli, &then) else { return };
        let run = command.output().unwrap();
        let ran = cli.here().join(format!("workspace/{free_kib}")).exists();
        let (code, why) = (run.status.code(), String::from_utf8_lossy(&run.stderr));
        assert_eq!(code, Some(if ran { 0 } else { 6 }), "{free_kib} KiB: {why}");
        refused += usize::from(why.contains("could not be recorded"));
    }
    assert!(refused > 0, "no call was the first to be refused");
}

/// A file may be as long as the limit of the process says (`ulimit -f`); beyond that it is a full disk.
#[test]
fn d3_a_limit_on_the_size_of_files_ends_no_host() {
    let cli = prepared();
    let mut failed = 0;
    for blocks in [0, 1, 4, 16, 64, 256] {
        let arguments = ["call", "claw.yaml", "write_file", "path=a", "content=x"];
        let run = cli.limited(blocks, &arguments).output().unwrap();
        // A signal leaves no code. Memory of guests is a file too, whose limit fails the tool.
        assert!(run.status.code().is_some(), "{blocks}: {:?}", run.status);
        failed += usize::from(run.status.code() == Some(6));
    }
    assert!(failed > 0, "no limit was met");
}

fn open(path: &Path) -> Result<(Database, OwnKeys), DatabaseError> {
    let database = Database::open(path, &[("keys", KEYS_MIGRATIONS)])?;
    let keys = Keys::new(database.clone(), "me").of("agent", Space::Tools);
    Ok((database, keys))
}

#[tokio::test]
async fn d3_a_full_store_refuses_what_does_not_fit_and_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let (database, keys) = open(&folder.path().join("db")).unwrap();
    let pages = async |most: u32| {
        let pragma = format!("PRAGMA max_page_count = {most}");
        database.run(move |db| db.query_row(&pragma, (), |row| row.get::<_, i64>(0))).await.unwrap()
    };
    keys.set("before", "kept").await.unwrap();
    pages(40).await;
    let value = "v".repeat(20_000);
    let mut kept = Vec::new();
    let error = loop {
        let key = kept.len().to_string();
        match keys.set(&key, &value).await {
            Ok(()) => kept.push(key),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind, ErrorKind::MemoryBackend, "{error}");
    assert!(!kept.is_empty() && keys.get(&kept.len().to_string()).await.unwrap().is_none());
    pages(10_000).await;
    keys.set("after", &value).await.unwrap();
    for key in &kept {
        assert_eq!(keys.get(key).await.unwrap().as_deref(), Some(&*value));
    }
    assert_eq!(keys.get("before").await.unwrap().as_deref(), Some("kept"));
}

/// Returns the places of a file of `length` bytes that are worth damaging.
fn places(length: usize) -> impl Iterator<Item = usize> {
    let every = (length / PLACES).max(1);
    (0..length).step_by(every).chain(length.saturating_sub(8)..length)
}

/// Returns how many entries a store has that were set one after the other; nothing where it is refused.
async fn count(path: &Path) -> Option<usize> {
    let (_database, keys) = open(path).ok()?;
    let (entries, _) = keys.list("", None, 100).await.ok()?;
    for (number, entry) in entries.iter().enumerate() {
        assert_eq!(entry.key, format!("{number:03}"), "an entry before it is lost");
        let value = keys.get(&entry.key).await.ok()??;
        assert_eq!(value, format!("value {number}"));
    }
    Some(entries.len())
}

#[tokio::test]
async fn d2_whatever_happens_to_the_end_of_the_store_it_opens_at_its_last_good_state() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (database, keys) = open(&path).unwrap();
    for number in 0..ENTRIES {
        keys.set(&format!("{number:03}"), &format!("value {number}")).await.unwrap();
    }
    // As a host that is killed leaves it: the last writes are in the log beside the file.
    let (whole, log) = (fs::read(&path).unwrap(), fs::read(folder.path().join("db-wal")).unwrap());
    drop((database, keys));
    let mut seen = BTreeMap::<usize, usize>::new();
    for at in places(log.len()) {
        let mut flipped = log.clone();
        flipped[at] ^= 0x10;
        for log in [&flipped[..], &log[..at]] {
            // A folder of its own: a store is closed a moment after its handles are gone.
            let folder = tempfile::tempdir().unwrap();
            let damaged = folder.path().join("db");
            fs::write(&damaged, &whole).unwrap();
            fs::write(folder.path().join("db-wal"), log).unwrap();
            *seen.entry(count(&damaged).await.unwrap()).or_default() += 1;
        }
    }
    assert!(seen.len() > ENTRIES / 2 && !seen.contains_key(&ENTRIES), "{seen:?}");
}

#[tokio::test]
async fn d2_a_damaged_file_of_the_store_is_an_error_and_no_crash() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (database, keys) = open(&path).unwrap();
    for number in 0..ENTRIES {
        keys.set(&format!("{number:03}"), &"v".repeat(2_000)).await.unwrap();
    }
    database.run(|db| db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")).await.unwrap();
    drop((database, keys));
    let (whole, mut refused) = (fs::read(&path).unwrap(), 0);
    for at in places(whole.len()) {
        let inserted = [&whole[..at], &[0xff; 64][..], &whole[at..]].concat();
        for bytes in [&whole[..at], &inserted] {
            let folder = tempfile::tempdir().unwrap();
            let damaged = folder.path().join("db");
            fs::write(&damaged, bytes).unwrap();
            let answered = match open(&damaged) {
                Ok((_database, keys)) => keys.list("", None, 100).await.is_ok(),
                Err(_) => false,
            };
            refused += usize::from(!answered);
        }
    }
    assert!(refused > PLACES / 2, "{refused}");
}

#[test]
fn d4_two_hosts_write_to_one_store_and_neither_loses_anything() {
    let cli = prepared();
    let start = || Client::start(&cli, &["run", "claw.yaml", "--stdio"]);
    let mut hosts = [start(), start()];
    for number in 0..SET_BY_EACH {
        for (host, name) in hosts.iter_mut().zip(["a", "b"]) {
            let set = json!({"action": "set", "key": format!("{name}{number}"), "value": number});
            host.begin("key_value_store", &set);
        }
    }
    for host in &hosts {
        for _ in 0..SET_BY_EACH {
            let answer = host.answer();
            assert_eq!(answer["result"]["isError"], false, "{answer}");
        }
    }
    for host in &mut hosts {
        let list = json!({"action": "list", "limit": 100});
        let listed = host.call("key_value_store", &list)["result"]["structuredContent"].clone();
        assert_eq!(listed["entries"].as_array().unwrap().len(), 2 * SET_BY_EACH);
        assert_eq!(listed["next"], Value::Null);
    }
    drop(hosts);
    let verified = cli.run(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{}", verified.stdout);
}
