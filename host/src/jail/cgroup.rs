//! A control group for each jail, where this system lets the host make one: it counts memory and
//! processes over the whole tree, which resource limits cannot.
//!
//! Both versions are used as they are found. Deliberately absent: mounting, enabling controllers
//! and moving the host itself; what is not delegated to the host's own group, or the one above
//! it, is not there.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::JailLimits;

/// Where the system mounts control groups.
const MOUNT: &str = "/sys/fs/cgroup";
/// What the groups of jails are called, before the host's process id and a number.
const NAME: &str = "clawhost-jail-";
/// Moves whoever writes a process id into it.
const MEMBERS: &str = "cgroup.procs";

/// A group in which groups of jails are made, and the files there that bound one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parent {
    folder: PathBuf,
    memory: Option<&'static str>,
    processes: Option<&'static str>,
}

/// Returns where groups of jails can be made; nothing where not both memory and processes can
/// be bounded.
pub(super) fn parents() -> Vec<Parent> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let parents = find(Path::new(MOUNT), &own);
    parents.iter().for_each(|parent| sweep(&parent.folder));
    let probe = JailLimits { memory_bytes: 1 << 30, processes_max: 64, ..JailLimits::default() };
    if Group::make(&parents, &probe).is_ok() { parents } else { Vec::new() }
}

/// The group of one jail; it goes when the jail has ended.
#[derive(Debug)]
pub(super) struct Group {
    folders: Vec<PathBuf>,
    /// A `0` written here makes the writer a member.
    pub(super) members: Vec<OwnedFd>,
}

/// Groups that were not empty yet when their jails were dropped.
static LEFT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

impl Group {
    pub(super) fn make(parents: &[Parent], limits: &JailLimits) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name =
            format!("{NAME}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        LEFT.lock().retain(|left| !is_removed(left));
        let mut group = Self { folders: Vec::new(), members: Vec::new() };
        for parent in parents {
            let folder = parent.folder.join(&name);
            fs::create_dir(&folder)?;
            group.folders.push(folder.clone());
            if let Some(file) = parent.memory {
                fs::write(folder.join(file), limits.memory_bytes.to_string())?;
                // Only there where swap is counted; without swap it changes nothing.
                drop(fs::write(folder.join("memory.swap.max"), "0"));
            }
            if let Some(file) = parent.processes {
                fs::write(folder.join(file), limits.processes_max.to_string())?;
            }
            group.members.push(fs::File::options().write(true).open(folder.join(MEMBERS))?.into());
        }
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.members.clear();
        let left = self.folders.drain(..).filter(|folder| !is_removed(folder));
        LEFT.lock().extend(left);
    }
}

/// Removes a group. One with members stays.
fn is_removed(folder: &Path) -> bool {
    fs::remove_dir(folder).is_ok() || !folder.exists()
}

/// Removes the groups of hosts that were killed.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let host = name.to_str().and_then(|name| name.strip_prefix(NAME)?.split('-').next());
        if host.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            is_removed(&entry.path());
        }
    }
}

/// Finds the parents below `mount` for a process whose `/proc/self/cgroup` is `own`.
fn find(mount: &Path, own: &str) -> Vec<Parent> {
    let groups = own.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        Some((controllers, path.trim_start_matches('/')))
    });
    let mut parents = Vec::new();
    for (controllers, path) in groups {
        match controllers {
            "" => parents.extend(second_version(mount, path)),
            "memory" => parents.push(Parent {
                folder: mount.join("memory").join(path),
                memory: Some("memory.limit_in_bytes"),
                processes: None,
            }),
            "pids" => parents.push(Parent {
                folder: mount.join("pids").join(path),
                memory: None,
                processes: Some("pids.max"),
            }),
            _ => {}
        }
    }
    let bounds_memory = parents.iter().any(|parent| parent.memory.is_some());
    let bounds_processes = parents.iter().any(|parent| parent.processes.is_some());
    if bounds_memory && bounds_processes { parents } else { Vec::new() }
}

/// The own group, or the one above it, which must hand both controllers down.
fn second_version(mount: &Path, path: &str) -> Option<Parent> {
    let own = mount.join(path);
    let above = own.parent().filter(|above| above.starts_with(mount)).map(Path::to_owned);
    let hands_down = |folder: &PathBuf| {
        let enabled = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
        ["memory", "pids"].iter().all(|name| enabled.split_whitespace().any(|it| it == *name))
    };
    let folder = [Some(own), above].into_iter().flatten().find(hands_down)?;
    Some(Parent { folder, memory: Some("memory.max"), processes: Some("pids.max") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(parents: &[Parent]) -> Vec<&Path> {
        parents.iter().map(|parent| parent.folder.as_path()).collect()
    }

    #[test]
    fn groups_of_the_first_version_are_found_by_controller() {
        let own = "9:name=systemd:/\n8:pids:/a\n4:memory:/b/c\n1:cpu:/\n0::/\n";
        let mount = Path::new("/m");
        assert_eq!(
            folders(&find(mount, own)),
            [Path::new("/m/pids/a"), Path::new("/m/memory/b/c")]
        );
        assert!(find(mount, "8:pids:/a\n0::/\n").is_empty(), "memory would be unbounded");
        assert!(find(mount, "").is_empty());
    }

    #[test]
    fn groups_of_the_second_version_need_both_controllers_handed_down() {
        let mount = tempfile::TempDir::new().unwrap();
        let own = mount.path().join("slice/scope");
        fs::create_dir_all(&own).unwrap();
        assert!(find(mount.path(), "0::/slice/scope\n").is_empty());
        fs::write(mount.path().join("slice/cgroup.subtree_control"), "cpu memory pids").unwrap();
        assert_eq!(
            folders(&find(mount.path(), "0::/slice/scope\n")),
            [mount.path().join("slice").as_path()]
        );
        fs::write(own.join("cgroup.subtree_control"), "memory\n").unwrap();
        assert_eq!(
            folders(&find(mount.path(), "0::/slice/scope\n")),
            [mount.path().join("slice").as_path()]
        );
        fs::write(own.join("cgroup.subtree_control"), "memory pids\n").unwrap();
        assert_eq!(folders(&find(mount.path(), "0::/slice/scope\n")), [own.as_path()]);
    }
}
