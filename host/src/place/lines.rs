//! Lines of JSON, to standard error or to a file of bounded size.
//!
//! Both can block (a full pipe, a dead network share), so they are written off the threads that
//! serve, by at most one thread.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawhost_core::limits::TELEMETRY_FILE_BYTES_MAX;
use parking_lot::Mutex;

use super::Failure;
use crate::regular;

/// A file, or standard error where there is no path.
pub(crate) struct Lines {
    path: Option<PathBuf>,
    open: Arc<Mutex<Option<Open>>>,
    bytes_max: u64,
}

struct Open {
    file: File,
    bytes: u64,
}

impl Lines {
    pub(super) fn console() -> Self {
        Self { path: None, open: Arc::default(), bytes_max: TELEMETRY_FILE_BYTES_MAX }
    }

    pub(super) fn file(path: PathBuf) -> Self {
        Self { path: Some(path), ..Self::console() }
    }

    pub(super) fn bounded_file(path: PathBuf, bytes_max: u64) -> Self {
        Self { bytes_max, ..Self::file(path) }
    }

    pub(super) const fn name(&self) -> &'static str {
        match self.path {
            Some(_) => "a file",
            None => "standard error",
        }
    }

    pub(super) async fn write(&self, objects: &[&str]) -> Result<(), Failure> {
        let text: String = objects.iter().flat_map(|object| [object, "\n"]).collect();
        let (path, open, bytes_max) = (self.path.clone(), Arc::clone(&self.open), self.bytes_max);
        let writing = tokio::task::spawn_blocking(move || {
            let Some(mut open) = open.try_lock() else {
                return Err(io::Error::other("an earlier batch is still being written"));
            };
            match path {
                None => io::stderr().lock().write_all(text.as_bytes()),
                Some(path) => append(&path, &mut open, &text, bytes_max),
            }
        });
        let written = writing.await.map_err(Failure::passing)?;
        written.map_err(Failure::passing)
    }
}

#[expect(clippy::disallowed_methods, reason = "it puts a file aside that is full")]
fn append(path: &Path, open: &mut Option<Open>, text: &str, bytes_max: u64) -> io::Result<()> {
    // Kept only if all goes well: a file that failed is opened anew.
    let mut now = match open.take() {
        Some(now) => now,
        None => open_file(path)?,
    };
    if now.bytes > 0 && now.bytes.saturating_add(text.len() as u64) > bytes_max {
        std::fs::rename(path, rotated(path))?;
        now = open_file(path)?;
    }
    now.file.write_all(text.as_bytes())?;
    now.bytes += text.len() as u64;
    *open = Some(now);
    Ok(())
}

/// Returns where the file at `path` is put aside when it is full.
pub(crate) fn rotated(path: &Path) -> PathBuf {
    let mut old = path.as_os_str().to_owned();
    old.push(".1");
    old.into()
}

fn open_file(path: &Path) -> io::Result<Open> {
    let mut file = regular::open_private(path)?;
    let mut bytes = file.metadata()?.len();
    let mut last = *b"\n";
    if let Some(end) = bytes.checked_sub(1) {
        file.read_exact_at(&mut last, end)?;
    }
    // What a full disk has left of a line does not spoil the next one.
    if last != *b"\n" {
        file.write_all(b"\n")?;
        bytes += 1;
    }
    Ok(Open { file, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_grows_to_its_bound_and_is_put_aside_then() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let lines = Lines { bytes_max: 30, ..Lines::file(path.clone()) };
        for number in 0..3 {
            let object = format!(r#"{{"event":"x","n":{number}}}"#);
            lines.write(&[object.as_str()]).await.unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("t.jsonl"), "{\"event\":\"x\",\"n\":2}\n");
        assert_eq!(read("t.jsonl.1"), "{\"event\":\"x\",\"n\":1}\n");
    }

    #[tokio::test]
    async fn what_is_left_of_a_line_spoils_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        std::fs::write(&path, "{\"a\":1}\n{\"b").unwrap();
        let lines = Lines::file(path.clone());
        lines.write(&["{}"]).await.unwrap();
        lines.write(&["[]"]).await.unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"a\":1}\n{\"b\n{}\n[]\n");
    }

    #[tokio::test]
    async fn a_missing_folder_is_made_for_this_user_only_or_named() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/t.jsonl");
        Lines::file(path.clone()).write(&["1"]).await.unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let below = path.join("t.jsonl");
        let failure = Lines::file(below.clone()).write(&["1"]).await.unwrap_err();
        assert!(failure.reason.contains(below.to_str().unwrap()), "{failure:?}");
    }

    #[tokio::test]
    async fn what_is_no_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let failure = Lines::file(folder.path().to_owned()).write(&["1"]).await.unwrap_err();
        assert!(failure.reason.contains("no regular file"), "{failure:?}");
    }
}
