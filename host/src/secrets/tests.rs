use std::ffi::OsString;
use std::path::Path;

use clawhost_core::limits::{SECRET_BYTES_MAX, SECRETS_BYTES_MAX};
use zeroize::Zeroizing;

use super::*;
use crate::state::{FolderEnv, StateDir};

fn environment(pairs: &'static [(&str, &str)]) -> Option<Box<Environment>> {
    Some(Box::new(|name| {
        pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
    }))
}

fn store(folder: &Path, pairs: &[(&str, &str)]) -> SecretStore {
    let state = StateDir::open(Some(folder), &FolderEnv::default()).unwrap();
    let store = SecretStore::new(&state);
    for (name, value) in pairs {
        store.set(name, Zeroizing::new((*value).to_owned())).unwrap();
    }
    store
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn in_folder(folder: &Path) -> Secrets {
    let folder = Some(folder.to_owned());
    Secrets::new(SecretSources { folder, ..SecretSources::default() })
}

fn value(secrets: &Secrets, name: &str) -> Option<String> {
    secrets.resolve(name).ok().map(|secret| secret.expose().to_owned())
}

#[test]
fn the_store_comes_before_the_environment_and_that_before_the_folder() {
    let state = tempfile::tempdir().unwrap();
    let files =
        folder(&[("A", "folder a"), ("B", "folder b"), ("C", "folder c\r\n"), ("d-e", "\n")]);
    let secrets = Secrets::new(SecretSources {
        store: Some(store(state.path(), &[("A", "store a")])),
        environment: environment(&[("A", "env a"), ("B", "env b"), ("C", ""), ("X_Y", "env xy")]),
        folder: Some(files.path().to_owned()),
    });
    for (name, expected) in [
        ("A", Some("store a")),
        ("B", Some("env b")),
        ("C", Some("folder c")),
        ("x-y", Some("env xy")),
        ("x.y", Some("env xy")),
        ("d-e", None),
        ("Z", None),
        ("", None),
    ] {
        assert_eq!(value(&secrets, name).as_deref(), expected, "{name}");
    }
    let missing = secrets.resolve("Z").unwrap_err().to_string();
    assert!(missing.contains("\"Z\""), "{missing}");
}

#[test]
fn a_name_never_leads_out_of_the_folder() {
    let outside = folder(&[("secret", "outside")]);
    let inside = folder(&[("fine", "inside")]);
    std::fs::create_dir(inside.path().join("sub")).unwrap();
    std::fs::write(inside.path().join("sub/below"), "below").unwrap();
    let secrets = in_folder(inside.path());
    let absolute = outside.path().join("secret").display().to_string();
    let relative = format!("../{}/secret", outside.path().file_name().unwrap().display());
    for name in [
        "..",
        ".",
        ".hidden",
        "sub",
        "sub/below",
        "./fine",
        "fine/",
        "fine\0",
        &absolute,
        &relative,
    ] {
        assert!(secrets.resolve(name).is_err(), "{name:?}");
    }
    assert_eq!(value(&secrets, "fine").as_deref(), Some("inside"));
}

#[cfg(unix)]
#[test]
fn a_link_is_followed_inside_the_folder_only_and_a_pipe_is_no_secret() {
    use std::os::unix::fs::symlink;
    let outside = folder(&[("secret", "outside")]);
    let inside = folder(&[]);
    let at = |name: &str| inside.path().join(name);
    std::fs::create_dir(at("..data")).unwrap();
    std::fs::write(at("..data/mounted"), "inside").unwrap();
    symlink("..data/mounted", at("mounted")).unwrap();
    symlink(outside.path().join("secret"), at("leads-out")).unwrap();
    symlink(outside.path(), at("folder")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let secrets = in_folder(inside.path());
    assert_eq!(value(&secrets, "mounted").as_deref(), Some("inside"));
    for name in ["leads-out", "folder", "pipe"] {
        assert!(matches!(secrets.resolve(name), Err(SecretError::Io { .. })), "{name}");
    }
}

#[test]
fn what_can_be_no_secret_is_refused() {
    let long = "x".repeat(SECRET_BYTES_MAX + 1);
    let files = folder(&[("long", &long), ("zero", "a\0b"), ("empty", "")]);
    std::fs::write(files.path().join("bytes"), [0xff, 0xfe, b'x']).unwrap();
    let fits = format!("{}\r\n", "x".repeat(SECRET_BYTES_MAX));
    std::fs::write(files.path().join("fits"), fits).unwrap();
    let secrets = in_folder(files.path());
    for name in ["long", "zero", "empty", "bytes"] {
        let error = secrets.resolve(name).unwrap_err();
        assert!(matches!(error, SecretError::Unusable { .. }), "{name}: {error}");
    }
    assert_eq!(value(&secrets, "fits").map(|value| value.len()), Some(SECRET_BYTES_MAX));
}

#[test]
fn a_source_that_cannot_be_read_is_not_passed_over() {
    let state = tempfile::tempdir().unwrap();
    let store = store(state.path(), &[("A", "store a")]);
    std::fs::write(state.path().join(crate::state::SECRETS_FILE), "damaged").unwrap();
    let environment = environment(&[("A", "env a")]);
    let secrets = Secrets::new(SecretSources { store: Some(store), environment, folder: None });
    assert!(matches!(secrets.resolve("A"), Err(SecretError::Store { .. })));
}

#[test]
fn the_redactor_knows_what_was_handed_out_and_what_that_was_before() {
    let state = tempfile::tempdir().unwrap();
    let store = store(state.path(), &[("A", "first-value")]);
    let sources = SecretSources { store: Some(store.clone()), ..SecretSources::default() };
    let secrets = Secrets::new(sources);
    assert!(secrets.redactor().is_empty());
    secrets.learn(["A", "missing"]);
    assert_eq!(secrets.redactor().text("first-value"), "[redacted:A]");
    store.set("A", Zeroizing::new("second-value".to_owned())).unwrap();
    assert_eq!(value(&secrets, "A").as_deref(), Some("second-value"));
    let redactor = secrets.redactor();
    assert_eq!(redactor.text("first-value second-value"), "[redacted:A] [redacted:A]");
}

#[test]
fn a_value_that_could_not_be_kept_from_showing_is_not_handed_out() {
    let count = SECRETS_BYTES_MAX / SECRET_BYTES_MAX;
    let files = folder(&[]);
    for index in 0..=count {
        let value = format!("{index:04}").repeat(SECRET_BYTES_MAX / 4);
        std::fs::write(files.path().join(format!("s{index}")), value).unwrap();
    }
    let secrets = in_folder(files.path());
    for index in 0..count {
        assert!(value(&secrets, &format!("s{index}")).is_some());
    }
    let error = secrets.resolve(&format!("s{count}")).unwrap_err();
    assert!(matches!(error, SecretError::TooMany(_)), "{error}");
    assert!(value(&secrets, "s0").is_some());
}

#[test]
fn nothing_prints_a_value() {
    let state = tempfile::tempdir().unwrap();
    let sources = SecretSources {
        store: Some(store(state.path(), &[("A", "hidden-value")])),
        ..SecretSources::default()
    };
    let secrets = Secrets::new(sources);
    let secret = secrets.resolve("A").unwrap();
    let shown = format!("{secret:?} {secrets:?}");
    assert!(!shown.contains("hidden"), "{shown}");
}
