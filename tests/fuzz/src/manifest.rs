//! Documents: whatever the bytes are, loading them is a manifest or a list of problems with places.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use clawhost_core::json;
use clawhost_core::manifest::{
    self, DocumentError, Manifest, OneDocument, Profile, SessionManifest, Settings, Surroundings,
};

use super::input::Input;

/// A manifest for the parts that need one, where the input's own does not load.
const PLAIN: &str = include_str!("../../conformance/claw.yaml");

/// Reads `data` as a document, the runtime file, a tool's sidecar and a session's manifest.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let document = input.part();
    let mut loaded = load(document);
    if let Err(problems) = &loaded {
        check(problems, document);
    }
    if let Ok(value) = json::parse(document) {
        // JSON means the same however it is laid out.
        let written = serde_json::to_vec(&value).expect("a value is JSON");
        assert_eq!(load(&written).is_ok(), loaded.is_ok(), "{value}");
    }
    let runtime = input.part();
    match Settings::read(Some((Path::new("clawhost.yaml"), runtime)), []) {
        Err(problems) => check(&problems, runtime),
        Ok(settings) => {
            if let Ok(manifest) = &mut loaded {
                settings.apply(manifest).unwrap_or_else(|problems| check(&problems, runtime));
            }
        }
    }
    let base = loaded.unwrap_or_else(|_| plain().clone());
    let sidecar = input.part();
    if let Err(problems) = base.read_sidecar(Path::new("tools/a.yaml"), sidecar) {
        check(&problems, sidecar);
    }
    if let Ok(value) = json::parse(input.part())
        && let Err(errors) = SessionManifest::read(&value, "0.3.0", &base)
    {
        assert!(!errors.problems.is_empty());
        for problem in &errors.problems {
            assert!(value.pointer(&problem.at).is_some() || problem.at.len() < 4_096);
        }
    }
}

fn load(bytes: &[u8]) -> Result<Manifest, Vec<DocumentError>> {
    static PROFILES: OnceLock<BTreeMap<String, Profile>> = OnceLock::new();
    let directory = Path::new("/here");
    let builtin = || manifest::builtin_profiles(directory).expect("they are ours");
    let around = Surroundings { directory, profiles: PROFILES.get_or_init(builtin) };
    manifest::load(&OneDocument(bytes.to_vec()), &["claw.yaml".into()], around)
}

fn plain() -> &'static Manifest {
    static MANIFEST: OnceLock<Manifest> = OnceLock::new();
    MANIFEST
        .get_or_init(|| load(PLAIN.as_bytes()).unwrap_or_else(|_| load(MINIMAL).expect("it loads")))
}

const MINIMAL: &[u8] = br#"{"claw":"0.3.0","kind":"Policy","metadata":{"name":"p"},"spec":{"rules":[{"id":"a","action":"allow","scope":"all"}]}}"#;

/// Every problem has a place in its file, and is one line that is safe to print.
fn check(problems: &[DocumentError], bytes: &[u8]) {
    assert!(!problems.is_empty(), "a refusal without a reason");
    let lines = bytes.iter().filter(|byte| **byte == b'\n' || **byte == b'\r').count() + 1;
    for problem in problems {
        assert!(problem.line <= lines + 1, "{problem:?} of {lines} lines");
        let line = problem.one_line();
        assert!(!line.contains(char::is_control), "{line:?}");
        assert!(line.len() < 65_536, "{} bytes", line.len());
    }
}
