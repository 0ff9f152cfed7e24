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
        ..SecretSources::default()
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
        "..", ".", ".hidden", "sub", "sub/below", "./fine", "fine/", "fine\0", &absolute, &relative,
    ] {
        assert!(secrets.resolve(name).is_err(), "{name:?}");
    }
    assert_eq!(value(&secrets, "fine").as_deref(), Some("inside"));
}

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
        assert!(matches!(secrets.resolve(name).unwrap_err().why, NoSecret::Io(_)), "{name}");
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
        assert!(matches!(error.why, NoSecret::Unusable(_)), "{name}: {error}");
    }
    assert_eq!(value(&secrets, "fits").map(|value| value.len()), Some(SECRET_BYTES_MAX));
}

#[test]
fn a_source_that_cannot_be_read_is_not_passed_over() {
    let state = tempfile::tempdir().unwrap();
    let store = store(state.path(), &[("A", "store a")]);
    std::fs::write(state.path().join(crate::state::SECRETS_FILE), "damaged").unwrap();
    let environment = environment(&[("A", "env a")]);
    let sources = SecretSources { store: Some(store), environment, ..SecretSources::default() };
    let secrets = Secrets::new(sources);
    assert!(matches!(secrets.resolve("A").unwrap_err().why, NoSecret::Store(_)));
}

#[test]
fn the_redactor_knows_every_value_that_was_handed_out() {
    let state = tempfile::tempdir().unwrap();
    let store = store(state.path(), &[("A", "first-value")]);
    let sources = SecretSources { store: Some(store.clone()), ..SecretSources::default() };
    let secrets = Secrets::new(sources);
    assert!(secrets.redactor().is_empty());
    secrets.learn(["A", "missing"]);
    assert_eq!(secrets.redactor().text("first-value"), "[redacted:A]");
    for next in ["second-value", "third-value", "first-value", "fourth-value"] {
        store.set("A", Zeroizing::new(next.to_owned())).unwrap();
        assert_eq!(value(&secrets, "A").as_deref(), Some(next));
    }
    let redactor = secrets.redactor();
    for earlier in ["first-value", "second-value", "third-value", "fourth-value"] {
        assert_eq!(redactor.text(earlier), "[redacted:A]", "{earlier}");
    }
}

#[test]
fn the_oldest_value_that_was_replaced_makes_room_for_a_new_one() {
    let files = folder(&[("stays", "never-rotated")]);
    let secrets = in_folder(files.path());
    assert!(value(&secrets, "stays").is_some());
    let rotated = |index: usize| format!("{index:04}").repeat(SECRET_BYTES_MAX / 4);
    let count = SECRETS_BYTES_MAX / SECRET_BYTES_MAX;
    for index in 0..count {
        std::fs::write(files.path().join("rotates"), rotated(index)).unwrap();
        assert_eq!(value(&secrets, "rotates"), Some(rotated(index)));
    }
    let redactor = secrets.redactor();
    assert_eq!(redactor.text("never-rotated"), "[redacted:stays]");
    assert_eq!(redactor.text(&rotated(0)), rotated(0));
    for index in 1..count {
        assert_eq!(redactor.text(&rotated(index)), "[redacted:rotates]", "{index}");
    }
    // A value and the one before it stay known: then there is no room for another.
    let others = (0..count).map(|index| format!("s{index}"));
    let fits = |name: &String| {
        std::fs::write(files.path().join(name), name.repeat(SECRET_BYTES_MAX / name.len()))
            .unwrap();
        value(&secrets, name).is_some()
    };
    assert_eq!(others.take_while(fits).count(), count - 3);
    assert_eq!(secrets.redactor().text(&rotated(count - 2)), "[redacted:rotates]");
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
    assert!(matches!(error.why, NoSecret::TooMany), "{error}");
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

#[test]
fn a_credential_of_the_host_is_taken_out_and_cannot_be_looked_up() {
    let secrets = Secrets::none();
    secrets.hide("the operator's credential", "clawhost-operator-0123").unwrap();
    let shown = secrets.redactor().text("x clawhost-operator-0123 y").into_owned();
    assert_eq!(shown, "x [redacted:the operator's credential] y");
    assert!(secrets.resolve("the operator's credential").is_err());
}
