//! Pulling beside something else: a full disk, another pull, another manifest, and what the manifest
//! binds already.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use clawhost_core::digest;
use clawhost_tests::listening::answering;
use serde_json::Value;

use crate::distribution::{
    ANSWER, Shelf, cli, component, files, honest, host_of, lock, manifest, pull, read, serve,
};
use crate::registry::{head_of, ok};

#[test]
fn what_was_pulled_is_what_the_manifest_binds_under_its_own_name_only() {
    let (host, _) = serve(&[1]);
    let cli = crate::registry::host("./answer.yaml", &[]);
    let spec = "{description: Answers., input_schema: {type: object}}";
    let document =
        format!("{{claw: '0.3.0', kind: Tool, metadata: {{name: answer}}, spec: {spec}}}");
    cli.write("answer.yaml", document);
    std::fs::create_dir(cli.here().join("tools")).unwrap();
    let served = || {
        let run = cli.run(&["tools", "claw.yaml", "--json", "--tools", "tools"]);
        let said: Value = serde_json::from_str(&run.stdout).unwrap();
        let is_served = said["tools"].as_array().unwrap().iter().any(|one| one["name"] == "answer");
        (is_served, said["refused"].to_string())
    };
    let reference = format!("oci://{host}/tools/other:1.0.0");
    assert_eq!(pull(&cli, &[&reference]).code, Some(0));
    let (is_served, why) = served();
    assert!(!is_served && why.contains("--name answer"), "{why}");
    let checked = cli.run(&["validate", "claw.yaml", "--tools", "tools"]);
    assert_eq!(checked.code, Some(3), "{}", checked.stdout);
    assert!(checked.stderr.contains("--name answer"), "{}", checked.stderr);
    let other = cli.here().join("tools/other.wasm");
    let pulled = std::fs::read(&other).unwrap();
    std::fs::write(&other, "somebody's own").unwrap();
    let refused = pull(&cli, &[&reference, "--name", "answer"]);
    assert!(refused.code == Some(4) && refused.stderr.contains("other.wasm"), "{}", refused.stderr);
    std::fs::write(&other, pulled).unwrap();
    let dry = pull(&cli, &[&reference, "--name", "answer", "--dry-run"]);
    assert!(dry.stdout.contains("would remove") && other.exists(), "{}", dry.stdout);
    let renamed = pull(&cli, &[&reference, "--name", "answer"]);
    assert!(renamed.code == Some(0) && renamed.stdout.contains("\nremoved "), "{}", renamed.stderr);
    assert!(!other.exists(), "nothing locks it any more");
    assert_eq!(served(), (true, "[]".to_owned()));
}

#[test]
fn whoever_pulls_beside_another_manifest_is_told_that_it_has_its_own_lock_file() {
    let (host, _) = serve(&[1]);
    let cli = cli("");
    cli.write("sub/claw.yaml", "");
    std::fs::create_dir(cli.here().join("sub/tools")).unwrap();
    let reference = format!("oci://{host}/a/answer:1.0.0");
    for (tools, more, is_told) in [
        ("tools", &[][..], false),
        ("sub/tools", &[], true),
        ("sub/tools", &["--manifest", "sub/claw.yaml"], false),
    ] {
        let run = cli.run(&[&["pull", &reference, "--tools", tools][..], more].concat());
        assert_eq!(run.code, Some(0), "{tools}: {}", run.stderr);
        assert_eq!(run.stderr.contains("--manifest"), is_told, "{tools}: {}", run.stderr);
    }
    assert!(cli.here().join("sub/clawhost.lock").exists());
}

/// A component that is larger than a lock file.
fn large() -> Vec<u8> {
    let data = format!("i32.const 42) (memory 1) (data (i32.const 0) \"{}\"))", "x".repeat(20_000));
    wat::parse_str(ANSWER.replace("i32.const 42))", &data)).unwrap()
}

#[test]
fn a_full_disk_changes_nothing_and_a_pull_that_was_killed_is_done_again() {
    let content = Arc::new(Mutex::new(component(1)));
    let seen = Arc::clone(&content);
    let (url, _) = answering(move |head| {
        let bytes = seen.lock().unwrap().clone();
        match head_of(head).1.contains("/blobs/") {
            true => ok(&bytes),
            false => ok(&manifest(&bytes, None).0),
        }
    });
    let cli = cli("");
    let reference = format!("oci://{}/t/answer:1", host_of(&url));
    // Of one that was killed long ago as well.
    let left = std::fs::File::create(cli.here().join("tools/.new-abcdef")).unwrap();
    left.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(pull(&cli, &[&reference]).code, Some(0));
    assert_eq!(files(&cli), ["answer.wasm"]);
    let now = || (files(&cli), lock(&cli), read(&cli, "tools/answer.wasm"));
    let before = now();
    *content.lock().unwrap() = large();
    let update = ["pull", "--tools", "tools", &reference, "--update"];
    let run = cli.limited(8, &update).output().unwrap();
    assert_eq!(run.status.code(), Some(6), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(now(), before);
    // What one that is killed before the last step leaves: the component, and the lock file of before.
    cli.write("tools/answer.wasm", large());
    let run = cli.run(&update);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(lock(&cli).contains(&digest::of_bytes(&large())), "{}", lock(&cli));
    assert_eq!(read(&cli, "tools/answer.wasm"), large());
}

#[test]
fn what_another_pull_has_locked_meanwhile_stays_locked() {
    let shelf: Shelf = Arc::new(Mutex::new(vec![1]));
    let meanwhile: Arc<Mutex<Option<(PathBuf, String)>>> = Arc::default();
    let (seen, due) = (Arc::clone(&shelf), Arc::clone(&meanwhile));
    let (url, _) = answering(move |head| {
        let path = head_of(head).1;
        let due = due.lock().unwrap().take_if(|_| path.contains("/blobs/"));
        due.into_iter().for_each(|(file, text)| std::fs::write(file, text).unwrap());
        honest(&seen, path)
    });
    let reference = format!("oci://{}/a/answer:1.0.0", host_of(&url));
    let first = cli("");
    assert_eq!(pull(&first, &[&reference]).code, Some(0));
    let locked = lock(&first);
    shelf.lock().unwrap().push(2);
    // The same reference before it moved, and another one whose file is called alike.
    for locked in [locked.clone(), locked.replace("/a/answer", "/b/answer")] {
        let cli = cli("");
        let file = cli.here().join("clawhost.lock");
        *meanwhile.lock().unwrap() = Some((file, locked.clone()));
        let run = pull(&cli, &[&reference]);
        assert_eq!(run.code, Some(4), "{}", run.stderr);
        assert!(run.stderr.contains("meanwhile"), "{}", run.stderr);
        assert_eq!((files(&cli), lock(&cli)), (Vec::new(), locked));
    }
}
