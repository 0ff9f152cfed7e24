//! The ground of the lab: folders that stand for a profile's own, canaries, and links that lead out.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use clawhost_core::grants::Access;
use clawhost_core::manifest::Profile;

use super::oracles::CANARY;

/// Files outside every grant, below the folder `outside`.
const OUTSIDE: [&str; 4] = ["canary.txt", "inside/canary.txt", "workspace2/canary.txt", "secret"];
const SPARSE_BYTES: u64 = 10 << 30;

/// What cases call the places of a lab.
#[derive(Debug, Clone)]
pub(super) struct Filled {
    /// `{absolute}`: the folder of canaries.
    absolute: PathBuf,
    /// `{outside}`: the way there from the first granted folder.
    outside: String,
    /// `{port}`: the port of the tripwire.
    port: u16,
}

impl Filled {
    /// Returns the places of the ground at `root`, planted for `profile`, with the tripwire `port`.
    pub(super) fn of(root: &Path, profile: &Profile, port: u16) -> Self {
        let first = profile.mounts.first().map_or(root, |mount| &mount.host);
        Self { absolute: root.join("outside"), outside: way_out(root, first), port }
    }

    /// Returns `text` with its places filled in.
    pub(super) fn fill(&self, text: &str) -> String {
        text.replace("{absolute}", &self.absolute.display().to_string())
            .replace("{outside}", &self.outside)
            .replace("{port}", &self.port.to_string())
    }
}

/// Returns `profile` with its folders below `root`, in the places that they have on this machine.
pub(super) fn moved(profile: &Profile, root: &Path) -> Profile {
    let mut profile = profile.clone();
    for mount in &mut profile.mounts {
        mount.host = below(&mount.host, root);
        // It is there, and opened with the host rather than by the first call.
        mount.create = false;
    }
    for path in &mut profile.denied_paths {
        *path = below(path, root);
    }
    profile
}

fn below(path: &Path, root: &Path) -> PathBuf {
    let mut inside = PathBuf::from("machine");
    for part in path.components() {
        match part {
            Component::Normal(name) => inside.push(name),
            Component::ParentDir if inside.components().count() > 1 => drop(inside.pop()),
            _ => {}
        }
    }
    root.join(inside)
}

/// Fills the lab: canaries outside, and in every granted folder files, and links that lead out.
/// Returns which folders guests may write to.
pub(super) fn plant(root: &Path, profile: &Profile) -> io::Result<BTreeMap<PathBuf, bool>> {
    let outside = root.join("outside");
    for file in OUTSIDE.map(|file| outside.join(file)) {
        std::fs::create_dir_all(file.parent().unwrap_or(root))?;
        std::fs::write(file, CANARY)?;
    }
    let mut open = BTreeMap::new();
    for mount in &profile.mounts {
        std::fs::create_dir_all(mount.host.join("sub"))?;
        std::fs::write(mount.host.join("inside.txt"), "granted")?;
        std::fs::File::create(mount.host.join("sparse"))?.set_len(SPARSE_BYTES)?;
        links(&mount.host, &outside, &way_out(root, &mount.host))?;
        open.insert(mount.host.clone(), mount.access == Access::ReadWrite);
    }
    for path in &profile.denied_paths {
        std::fs::create_dir_all(path)?;
        std::fs::write(path.join("canary.txt"), CANARY)?;
        open.insert(path.clone(), false);
    }
    Ok(open)
}

/// Returns the way from `folder` up to the canaries.
fn way_out(root: &Path, folder: &Path) -> String {
    let depth = folder.strip_prefix(root).map_or(0, |inside| inside.components().count());
    format!("{}outside", "../".repeat(depth))
}

fn links(folder: &Path, outside: &Path, way: &str) -> io::Result<()> {
    let absolute = |name: &str| outside.join(name).display().to_string();
    let mut links = vec![
        ("link".to_owned(), absolute("canary.txt")),
        ("relative_link".to_owned(), format!("{way}/canary.txt")),
        ("dir_link".to_owned(), absolute("")),
        ("relative_dir_link".to_owned(), way.to_owned()),
        ("dangling".to_owned(), absolute("new.txt")),
        ("relative_dangling".to_owned(), format!("{way}/new2.txt")),
        ("through_sub".to_owned(), format!("sub/../{way}/canary.txt")),
        ("sub/chain".to_owned(), "../link".to_owned()),
    ];
    links
        .extend((0..50).map(|number| (format!("chain_{number}"), format!("chain_{}", number + 1))));
    let fixed = [
        ("root_link", "/"),
        ("environ_link", "/proc/self/environ"),
        ("memory_link", "/proc/self/mem"),
        ("descriptor_link", "/proc/self/fd"),
        ("up", ".."),
        ("loop_a", "loop_b"),
        ("loop_b", "loop_a"),
        ("zero", "/dev/zero"),
        ("tty", "/dev/tty"),
    ];
    links.extend(fixed.map(|(name, target)| (name.to_owned(), target.to_owned())));
    for (name, target) in links {
        std::os::unix::fs::symlink(target, folder.join(name))?;
    }
    pipe(&folder.join("pipe"))
}

#[cfg(target_os = "linux")]
fn pipe(path: &Path) -> io::Result<()> {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    Ok(rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)?)
}

/// A pipe is made on Linux only: elsewhere the name is absent, which is refused as well.
#[cfg(not(target_os = "linux"))]
fn pipe(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_keep_their_places_in_the_lab_and_never_leave_it() {
        let root = Path::new("/lab/0");
        for (path, expected) in [
            ("/home/me/w", "/lab/0/machine/home/me/w"),
            ("/home/me/w/secret", "/lab/0/machine/home/me/w/secret"),
            ("/home/../../../etc", "/lab/0/machine/etc"),
            ("/", "/lab/0/machine"),
        ] {
            assert_eq!(below(Path::new(path), root), Path::new(expected), "{path}");
        }
        assert_eq!(way_out(root, Path::new("/lab/0/machine/w")), "../../outside");
    }
}
