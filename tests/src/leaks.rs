//! Whether a run has put a token where none belongs: every place that it wrote to is searched, in every common
//! spelling, for the tokens that it knew.
//!
//! Deliberately absent: what a test itself writes, and the files of the state folder whose content secrets are.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clawhost_core::limits::REDACT_VALUE_BYTES;
use clawhost_core::redact::Redactor;
use serde_json::Value;

/// The files of a state folder that hold secrets, for their owner only.
const PRIVATE: [&str; 2] = ["credentials.json", "secrets.json"];

/// What is searched of one file: a log that is longer says the same again.
const SEARCHED_BYTES_MAX: u64 = 16 << 20;

/// Tokens, under names of their own, and what finds them once all are known.
#[derive(Debug, Default)]
pub struct Known(Vec<(String, String)>, OnceLock<Redactor>);

impl Known {
    /// Returns the tokens in the private files of a state folder.
    pub fn of(state: &Path) -> Self {
        let mut known = Self::default();
        for file in PRIVATE.map(|name| state.join(name)) {
            let bytes = std::fs::read(file).unwrap_or_default();
            let stored: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            known.collect("", &stored);
        }
        known
    }

    /// Adds one.
    pub fn add(&mut self, name: &str, token: &str) {
        if token.len() >= REDACT_VALUE_BYTES {
            self.0.push((name.to_owned(), token.to_owned()));
            self.1 = OnceLock::new();
        }
    }

    fn collect(&mut self, name: &str, value: &Value) {
        match value {
            Value::Object(members) => {
                members.iter().for_each(|(name, value)| self.collect(name, value));
            }
            // What a server gave at a login is one secret with several parts, of which some are none.
            Value::String(text) if text.starts_with('{') => {
                let parts: Value = serde_json::from_str(text).unwrap_or_default();
                for (name, part) in parts.as_object().into_iter().flatten() {
                    if name.contains("token") || name.contains("secret") {
                        self.add(name, part.as_str().unwrap_or_default());
                    }
                }
            }
            Value::String(text) => self.add(name, text),
            _ => {}
        }
    }

    fn redactor(&self) -> &Redactor {
        let all = self.0.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        self.1.get_or_init(|| Redactor::new(all).unwrap())
    }

    /// Looks for a token in `bytes`.
    ///
    /// # Panics
    /// Where there is one.
    pub fn check(&self, what: &str, bytes: &[u8]) {
        check(self.redactor(), what, bytes);
    }

    /// Looks for a token in every file below `folder` but the private ones and those whose paths begin with one of
    /// `written`.
    ///
    /// # Panics
    /// Where there is one.
    pub fn check_files(&self, folder: &Path, written: &[PathBuf]) {
        check_files(self.redactor(), folder, written);
    }
}

/// As [`Known::check`], of what `redactor` knows.
///
/// # Panics
/// Where there is one.
pub fn check(redactor: &Redactor, what: &str, bytes: &[u8]) {
    // A test that fails already says why.
    if std::thread::panicking() || *redactor.bytes(bytes) == *bytes {
        return;
    }
    let shown = String::from_utf8_lossy(&redactor.bytes(bytes)).into_owned();
    let at = shown.find("[redacted").unwrap_or_default();
    let near: String = shown[shown[..at].rfind('\n').unwrap_or(0)..].chars().take(400).collect();
    panic!("a token is in {what}: {near}");
}

/// As [`Known::check_files`], of what `redactor` knows.
///
/// # Panics
/// Where there is one.
pub fn check_files(redactor: &Redactor, folder: &Path, written: &[PathBuf]) {
    let is_written = |path: &Path| {
        let path = path.to_string_lossy();
        written.iter().any(|one| path.starts_with(&*one.to_string_lossy()))
    };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let is_private = PRIVATE.iter().any(|name| path.ends_with(name));
        if kind.is_dir() {
            check_files(redactor, &path, written);
        } else if kind.is_file() && !is_private && !is_written(&path) {
            // What may not be read is nobody's to leak.
            let mut bytes = Vec::new();
            if let Ok(file) = File::open(&path) {
                drop(file.take(SEARCHED_BYTES_MAX).read_to_end(&mut bytes));
            }
            check(redactor, &path.display().to_string(), &bytes);
        }
    }
}
