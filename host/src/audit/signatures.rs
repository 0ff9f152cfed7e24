//! Tests: what signatures show that hashes alone do not.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clawhost_core::digest;
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
    let unsigned = report(&dir, &trust(7));
    assert_eq!((unsigned.broken, unsigned.signed), (None, Some(0)), "{text}");
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
    assert!(report(&dir, &trust(7)).broken.unwrap().contains("not signed"));
    let (folder, dir, chain) = signed(1);
    let path = folder.path().join(format!("{chain}.signatures"));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut line: Value = serde_json::from_str(text.trim()).unwrap();
    line["signature"] = serde_json::json!("AAAA");
    std::fs::write(&path, format!("{line}\n")).unwrap();
    assert!(report(&dir, &trust(7)).broken.unwrap().contains("signature"));
}

#[test]
fn what_a_killed_host_left_unsigned_is_counted_and_half_a_line_is_none() {
    let (folder, dir, chain) = signed(1);
    let path = folder.path().join(format!("{chain}.signatures"));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    let report = report(&dir, &trust(7));
    assert_eq!((report.broken, report.records, report.signed), (None, 3, Some(0)));
}

#[test]
fn a_head_that_cannot_be_written_stops_no_signature() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
    dir.write("head", "").unwrap();
    let read_only = dir.open("head").unwrap().into_std();
    let files = (dir.create("signatures").unwrap(), read_only);
    let signer = super::sign::Signer::start("chain", files, key(7)).unwrap();
    signer.take(digest::of_bytes(b"record"));
    drop(signer);
    assert_eq!(dir.read_to_string("signatures").unwrap().lines().count(), 1);
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
    assert_eq!(altered(r#""first":0"#, r#""first":1"#), NoProof::Signature);
    assert!(Receipt::find(&dir, &chain, |_| false).unwrap().is_none());
}
