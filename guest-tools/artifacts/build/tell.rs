//! Words for the person who waits. Cargo shows a build script's output only when it fails.

use std::fs::OpenOptions;
use std::io::Write;

/// Says one line on the terminal, if there is one, and in the build script's own log.
pub(crate) fn progress(line: &str) {
    eprintln!("{line}");
    let Ok(mut terminal) = OpenOptions::new().write(true).open("/dev/tty") else {
        return;
    };
    // Cargo's progress bar stands where we write: clear its line first. A terminal that goes
    // away must not stop a build.
    let _ = writeln!(terminal, "\r\x1b[K    Building {line}");
}
