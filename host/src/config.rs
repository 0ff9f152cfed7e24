//! The runtime file `clawhost.yaml` and the environment: found and read here, understood by
//! [`clawhost_core::manifest::Settings`].
//!
//! No other module looks at `CLAWHOST_…` variables, or at those that say the same, but for the log's. Deliberately absent: command
//! line options, which win over both and belong to `cli`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clawhost_core::limits::DOCUMENT_BYTES_MAX;
use clawhost_core::manifest::{DocumentError, Settings, is_own_variable};

use crate::regular;

/// Names of the runtime file, in a directory of documents.
const FILE_NAMES: [&str; 3] = ["clawhost.yaml", "clawhost.yml", "clawhost.json"];
/// The variable that stands for `--config`.
const FILE_VARIABLE: &str = "CLAWHOST_CONFIG";

/// Reads the runtime file and the variables, which win over it.
///
/// The file is `explicit`, else what the variable `CLAWHOST_CONFIG` names, else
/// `clawhost.yaml`, `.yml` or `.json` in the directory `beside`, else there is none.
///
/// # Errors
/// An explicit file that cannot be read, two candidates beside the manifest, and every
/// unknown key, unserved key, wrong value or unknown variable.
pub fn load(
    explicit: Option<&Path>,
    beside: Option<&Path>,
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Settings, Vec<DocumentError>> {
    let variables = own_variables(env)?;
    let named = variables.iter().find(|(name, value)| name == FILE_VARIABLE && !value.is_empty());
    let named = explicit.or_else(|| named.map(|(_, value)| Path::new(value)));
    let file = match (named, beside) {
        (Some(named), _) => Some(named.to_path_buf()),
        (None, Some(directory)) => find(directory)?,
        (None, None) => None,
    };
    let bytes = file.as_deref().map(read).transpose()?;
    Settings::read(file.as_deref().zip(bytes.as_deref()), variables)
}

/// Says whether `file` has the name of a runtime file.
#[must_use]
pub fn is_runtime_file(file: &Path) -> bool {
    file.file_name().is_some_and(|name| FILE_NAMES.iter().any(|runtime| name == *runtime))
}

/// Returns the environment of this process, for [`load`].
#[must_use]
#[expect(clippy::disallowed_methods, reason = "it reads the environment")]
pub fn environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

fn own_variables(
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, Vec<DocumentError>> {
    // The rest is nobody's business here.
    let own = env.into_iter().filter(|(name, _)| is_own_variable(name.as_encoded_bytes()));
    let mut variables = Vec::new();
    for (name, value) in own {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => variables.push((name, value)),
            (Ok(name), Err(_)) => return Err(fail(Path::new(&name), "the value is not UTF-8")),
            (Err(name), _) => return Err(fail(Path::new(&name), "the name is not UTF-8")),
        }
    }
    Ok(variables)
}

#[expect(clippy::disallowed_methods, reason = "it looks for the runtime file")]
fn find(directory: &Path) -> Result<Option<PathBuf>, Vec<DocumentError>> {
    let candidates = FILE_NAMES.iter().map(|name| directory.join(name));
    // What is there and is no file, a FIFO or a link to nothing, is refused where it is read.
    let mut found = candidates.filter(|file| file.symlink_metadata().is_ok());
    match (found.next(), found.next()) {
        (Some(first), Some(second)) => {
            let reason = format!("`{}` is a second runtime file", second.display());
            Err(fail(&first, &reason))
        }
        (first, _) => Ok(first),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Vec<DocumentError>> {
    regular::read(file, DOCUMENT_BYTES_MAX as u64)
        .map_err(|error| fail(file, &format!("cannot be read: {error}")))
}

fn fail(file: &Path, reason: &str) -> Vec<DocumentError> {
    let help = Some(
        "`--config FILE` names the runtime file; without it `clawhost.yaml` beside the manifest is read",
    );
    vec![DocumentError::whole_file(file, reason, help)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        directory
    }

    fn env(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    fn load(
        explicit: Option<&Path>,
        beside: Option<&Path>,
        pairs: &[(&str, &str)],
    ) -> Result<Settings, String> {
        super::load(explicit, beside, env(pairs)).map_err(|list| list[0].one_line())
    }

    #[test]
    fn the_file_beside_the_manifest_is_found_and_none_is_fine() {
        let with = directory(&[("clawhost.yaml", "version: 1\nstate: s\n")]);
        let settings = load(None, Some(with.path()), &[]).unwrap();
        assert_eq!(settings.state, Some(with.path().join("s")));
        let without = directory(&[]);
        assert_eq!(load(None, Some(without.path()), &[]).unwrap(), Settings::default());
        assert_eq!(load(None, None, &[]).unwrap(), Settings::default());
    }

    #[test]
    fn an_explicit_file_wins_over_the_variable_and_that_over_the_one_beside() {
        let files = directory(&[
            ("clawhost.yaml", "version: 1\nstate: beside\n"),
            ("named.yaml", "version: 1\nstate: named\n"),
            ("explicit.json", "{\"version\": 1, \"state\": \"explicit\"}"),
        ]);
        let at = |name: &str| files.path().join(name);
        let named = at("named.yaml");
        let pairs = [("CLAWHOST_CONFIG", named.to_str().unwrap())];
        let state = |explicit: Option<&Path>, pairs: &[(&str, &str)]| {
            load(explicit, Some(files.path()), pairs).unwrap().state.unwrap()
        };
        assert_eq!(state(Some(&at("explicit.json")), &pairs), at("explicit"));
        assert_eq!(state(None, &pairs), at("named"));
        assert_eq!(state(None, &[]), at("beside"));
        assert_eq!(state(None, &[("CLAWHOST_STATE", "/elsewhere")]), Path::new("/elsewhere"));
    }

    #[test]
    fn a_missing_explicit_file_and_two_candidates_are_refused() {
        let files = directory(&[("clawhost.yaml", "version: 1"), ("clawhost.json", "{}")]);
        assert!(
            load(Some(&files.path().join("gone")), None, &[])
                .unwrap_err()
                .contains("cannot be read")
        );
        assert!(load(None, Some(files.path()), &[]).unwrap_err().contains("second runtime file"));
    }

    #[test]
    fn what_is_there_and_is_no_file_is_refused_and_not_passed_over() {
        let folder = directory(&[]);
        let file = folder.path().join("clawhost.yaml");
        std::fs::create_dir(&file).unwrap();
        assert!(load(None, Some(folder.path()), &[]).unwrap_err().contains("it is a directory"));
        std::fs::remove_dir(&file).unwrap();
        std::os::unix::fs::symlink("nowhere", &file).unwrap();
        assert!(load(None, Some(folder.path()), &[]).unwrap_err().contains("cannot be read"));
        std::fs::remove_file(&file).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
        assert!(made.success());
        for named in [None, Some(&*file)] {
            let why = load(named, Some(folder.path()), &[]).unwrap_err();
            assert!(why.contains("it is no regular file"), "{why}");
        }
    }

    #[test]
    fn a_file_that_is_too_large_is_refused() {
        let files = directory(&[("clawhost.yaml", &"#".repeat(DOCUMENT_BYTES_MAX + 10))]);
        assert!(load(None, Some(files.path()), &[]).is_err());
    }

    #[test]
    fn a_variable_that_is_not_utf8_is_refused_and_foreign_ones_are_not_looked_at() {
        use std::os::unix::ffi::OsStringExt as _;
        let bad = || OsString::from_vec(vec![0xff]);
        let own = vec![("CLAWHOST_STATE".into(), bad())];
        assert!(super::load(None, None, own).is_err());
        let foreign = vec![("OTHER".into(), bad()), (bad(), bad())];
        assert!(super::load(None, None, foreign).is_ok());
    }

    #[test]
    fn every_other_name_of_a_variable_is_read_and_problems_say_the_one_that_was_set() {
        for (name, wrong) in [
            ("CRUVERO_COMPOSITE_MAX_DEPTH", "0"),
            ("CRUVERO_COMPOSITE_MAX_STEPS", "0"),
            ("CRUVERO_COMPOSITE_MAX_STEP", "1"),
            ("CRUVERO_IMMUNE_QUARANTINE_TTL", "soon"),
            ("CRUVERO_IMMUNE_ENABLED", "["),
            ("CRUVERO_TOOL_CONTRACT_POSTCONDITION_MODE", "ignore"),
            ("CRUVERO_MCP_SERVERS", "nothing"),
            ("CRUVERO_MCP_ENV_GONE", "A=b"),
            ("CRUVERO_MCP_ENDPOINTS_GONE", "https://x.example"),
        ] {
            let why = load(None, None, &[(name, wrong)]).unwrap_err();
            assert!(
                why.starts_with(name) && !why.contains("`CLAWHOST_COMPOSITES_MAX_STEP`"),
                "{why}"
            );
        }
        let depth = load(None, None, &[("CRUVERO_COMPOSITE_MAX_DEPTH", "1")]).unwrap();
        assert_eq!(depth.governance.composites.depth_max, 1);
    }
}
