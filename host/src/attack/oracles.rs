//! Oracles: what tells, without asking the host, whether something got out of a sandbox.
//!
//! Memory, descriptors and processes are read from `/proc`; elsewhere those oracles say nothing.

use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::io;
use std::net::{Ipv6Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::engine::CODE_ENDING;

/// What the canary files hold; it must not appear in any reply or record.
pub const CANARY: &str = "canary-5e2f-do-not-sing";
/// How the first line of the system's list of users begins: the nearest file that is nobody's
/// secret and outside every grant.
const USERS: &str = "root:x:0:";
/// The memory that a call may cost the host beside the guest's own, in bytes.
const MEMORY_SLACK_BYTES: u64 = 32 << 20;
/// A call may end a moment before everything of it is gone, however busy the machine is.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Of larger files only the size is compared.
const COMPARED_BYTES_MAX: u64 = 1 << 20;

/// What lies in a folder: every path, and what it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot(BTreeMap<PathBuf, String>);

impl Snapshot {
    /// Looks at everything below `folder`. Of two folders one inside the other in `open`, the inner
    /// one decides whether guests may write there, and so whether what is in it counts.
    ///
    /// # Errors
    /// Something cannot be read.
    pub fn of(folder: &Path, open: &BTreeMap<PathBuf, bool>) -> io::Result<Self> {
        let mut snapshot = Self::default();
        snapshot.look(folder, true, open)?;
        Ok(snapshot)
    }

    fn look(
        &mut self,
        folder: &Path,
        counts: bool,
        open: &BTreeMap<PathBuf, bool>,
    ) -> io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let about = path.symlink_metadata()?;
            let counts_inside = open.get(&path).map_or(counts, |is_writable| !is_writable);
            if about.is_dir() {
                self.look(&path, counts_inside, open)?;
            }
            if counts || counts_inside {
                let what = match about.file_type() {
                    kind if kind.is_file() && about.len() <= COMPARED_BYTES_MAX => {
                        format!("{:?}", String::from_utf8_lossy(&std::fs::read(&path)?))
                    }
                    kind if kind.is_dir() => "a folder".to_owned(),
                    kind => format!("{kind:?}, {} bytes", about.len()),
                };
                self.0.insert(path, what);
            }
        }
        Ok(())
    }

    /// Says what is in one of the two and not in the other.
    pub fn difference(&self, other: &Self) -> Vec<String> {
        let one = self.0.iter().filter(|(path, what)| other.0.get(*path) != Some(what));
        let two = other.0.iter().filter(|(path, _)| !self.0.contains_key(*path));
        one.chain(two).map(|(path, _)| path.display().to_string()).collect()
    }
}

/// The oracles of one place, and what they compare with.
#[derive(Debug)]
pub(super) struct Oracles {
    root: PathBuf,
    open: BTreeMap<PathBuf, bool>,
    planted: Snapshot,
    tripwires: Vec<TcpListener>,
    hidden: Vec<String>,
    settled_within: Duration,
}

/// How the process was before an attack.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    descriptors: Option<usize>,
    memory_bytes: Option<u64>,
}

impl Oracles {
    /// Watches everything below `root` but what `open` lets guests write to, and a port of this
    /// machine.
    pub(super) fn watch(
        root: &Path,
        open: BTreeMap<PathBuf, bool>,
        hidden: &[String],
    ) -> io::Result<Self> {
        let planted = Snapshot::of(root, &open)?;
        let first = TcpListener::bind("127.0.0.1:0")?;
        let port = first.local_addr()?.port();
        let second = TcpListener::bind((Ipv6Addr::LOCALHOST, port)).ok();
        let tripwires: Vec<_> = [first].into_iter().chain(second).collect();
        for tripwire in &tripwires {
            tripwire.set_nonblocking(true)?;
        }
        let hidden = [CANARY, USERS].map(str::to_owned).into_iter().chain(hidden.iter().cloned());
        let (root, hidden) = (root.to_owned(), hidden.collect());
        Ok(Self { root, open, planted, tripwires, hidden, settled_within: SETTLED_WITHIN })
    }

    /// Returns the port that nobody may connect to.
    pub(super) fn port(&self) -> io::Result<u16> {
        let first = self.tripwires.first().ok_or(io::ErrorKind::NotFound)?;
        Ok(first.local_addr()?.port())
    }

    /// Notes how the process is, before an attack.
    pub(super) fn before(&self) -> Before {
        // Sets the peak to what is used now; the system may not let us.
        drop(std::fs::write("/proc/self/clear_refs", "5"));
        Before { descriptors: descriptors(), memory_bytes: memory_bytes("VmRSS:") }
    }

    /// Says what gave way, one sentence each: `shown` is all that the caller saw of a guest that
    /// may have had `memory_bytes_max`.
    pub(super) async fn after(
        &self,
        before: Before,
        shown: &str,
        memory_bytes_max: u64,
    ) -> Vec<String> {
        let peak = memory_bytes("VmHWM:");
        let mut broken = self.seen_in(shown);
        if let (Some(base), Some(peak)) = (before.memory_bytes, peak)
            && peak.saturating_sub(base) > memory_bytes_max + MEMORY_SLACK_BYTES
        {
            broken.push(format!("the host grew by {} MiB", peak.saturating_sub(base) >> 20));
        }
        if self.tripwires.iter().any(|tripwire| tripwire.accept().is_ok()) {
            broken.push("somebody connected to this machine".to_owned());
        }
        match Snapshot::of(&self.root, &self.open) {
            Ok(now) if now == self.planted => {}
            Ok(now) => broken.push(format!("files changed: {:?}", self.planted.difference(&now))),
            Err(error) => broken.push(format!("the lab cannot be read any more: {error}")),
        }
        broken.extend(self.left_behind(before).await);
        broken
    }

    /// Says which hidden text `shown` holds.
    pub(super) fn seen_in(&self, shown: &str) -> Vec<String> {
        let seen = self.hidden.iter().filter(|hidden| shown.contains(hidden.as_str()));
        // Not what it was: a report is shown around.
        seen.map(|hidden| format!("hidden text of {} bytes was seen", hidden.len())).collect()
    }

    async fn left_behind(&self, before: Before) -> Option<String> {
        let started = Instant::now();
        loop {
            let (processes, open) = (processes_in(&self.root), descriptors());
            let is_settled = processes == 0 && open <= before.descriptors;
            if is_settled {
                return None;
            }
            if started.elapsed() > self.settled_within {
                return Some(format!(
                    "{processes} processes survive; descriptors: {:?}, then {open:?}",
                    before.descriptors
                ));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Counts what is open, but for the code of components: it is mapped from its file by the first call that runs it.
fn descriptors() -> Option<usize> {
    // One of them is that of the folder itself, each time.
    let open = std::fs::read_dir("/proc/self/fd").ok()?.flatten();
    // One that was replaced has more behind its name; the folders above it may be called anything.
    let is_code = |file: &PathBuf| {
        file.file_name().is_some_and(|name| name.to_string_lossy().contains(CODE_ENDING))
    };
    let code = |one: &DirEntry| std::fs::read_link(one.path()).is_ok_and(|file| is_code(&file));
    Some(open.filter(|one| !code(one)).count())
}

fn memory_bytes(key: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

/// Counts the processes that work in a folder below `root`, as every jailed one does.
fn processes_in(root: &Path) -> usize {
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    let folders =
        processes.flatten().filter_map(|one| std::fs::read_link(one.path().join("cwd")).ok());
    folders.filter(|folder| folder.starts_with(root)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oracles(folder: &Path) -> Oracles {
        std::fs::create_dir(folder.join("open")).unwrap();
        std::fs::write(folder.join("canary.txt"), CANARY).unwrap();
        let open = BTreeMap::from([(folder.join("open"), true)]);
        let oracles = Oracles::watch(folder, open, &["a hidden variable".to_owned()]).unwrap();
        Oracles { settled_within: Duration::ZERO, ..oracles }
    }

    async fn broken(oracles: &Oracles, shown: &str) -> String {
        let quiet = Before { descriptors: Some(usize::MAX), memory_bytes: None };
        oracles.after(quiet, shown, 0).await.join("; ")
    }

    #[tokio::test]
    async fn what_is_seen_changed_or_connected_to_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let oracles = oracles(folder.path());
        std::fs::write(folder.path().join("open/new.txt"), "may be written").unwrap();
        assert_eq!(broken(&oracles, "nothing").await, "");
        assert!(broken(&oracles, &format!("<{CANARY}>")).await.contains("was seen"));
        assert!(broken(&oracles, "shows a hidden variable").await.contains("was seen"));
        let peer = std::net::TcpStream::connect(("127.0.0.1", oracles.port().unwrap())).unwrap();
        assert!(broken(&oracles, "").await.contains("connected"));
        drop(peer);
        std::fs::write(folder.path().join("canary.txt"), "changed").unwrap();
        assert!(broken(&oracles, "").await.contains("canary.txt"));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn memory_that_grew_and_a_process_that_survives_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let oracles = oracles(folder.path());
        let small = Before { descriptors: Some(usize::MAX), memory_bytes: Some(0) };
        // The tests themselves take more than the slack is.
        let held: Vec<u8> = vec![1; 40 << 20];
        assert!(oracles.after(small, "", 0).await.join("").contains("grew"), "{}", held.len());
        let mut sleeper = tokio::process::Command::new("sleep")
            .arg("60")
            .current_dir(folder.path())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        assert!(broken(&oracles, "").await.contains("1 processes survive"));
        sleeper.kill().await.unwrap();
        assert_eq!(broken(&oracles, "").await, "");
    }
}
