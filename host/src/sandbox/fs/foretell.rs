//! What the sandbox would say of a path, as things lie now. Nothing is opened to a guest or made.

use std::sync::Arc;

use clawhost_core::grants::Access;
use clawhost_core::policy::NOWHERE;
use rustix::io::Errno;

use super::fault::Fault;
use super::folder::Folder;
use super::meter::{FsLimits, Meter};
use super::roots::Roots;
use super::stat::Kind;
use super::tree::{Follow, Tree};
use super::walk::{self, Target};

/// What a path of a call's arguments would meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// The path, as tools see it: `/` is the first granted folder, `/<name>` another one.
    pub path: String,
    /// The granted folder it lies in, by the name that guests know; none where it lies in none.
    pub mount: Option<String>,
    /// What may be done there and whether there is anything, else the refusal.
    pub says: Result<(Access, bool), Fault>,
}

impl Outlook {
    /// Looks where `path`, in canonical form, leads below `roots`.
    #[must_use]
    pub fn of(roots: &Arc<Roots>, path: &str) -> Self {
        let inside = roots.made().filter_map(|made| Some((below(path, &made.0.guest)?, made)));
        let nearest = inside.max_by_key(|(_, (mount, _))| mount.guest.len());
        let (mount, says) = match nearest {
            None => (None, Err(Fault::Outside)),
            Some((_, (mount, None))) => (Some(mount), Ok((mount.access, false))),
            Some((rest, (mount, Some(folder)))) => (Some(mount), look(roots, folder, rest)),
        };
        Self { path: path.to_owned(), mount: mount.map(|mount| mount.guest.clone()), says }
    }
}

/// Returns what of `path` lies below the folder that guests call `mount`. Without a slash in front it begins in
/// the first one.
fn below<'p>(path: &'p str, mount: &str) -> Option<&'p str> {
    if !path.starts_with('/') {
        return Some(path).filter(|path| mount == "/" && *path != NOWHERE);
    }
    let rest = path.strip_prefix(mount.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}

fn look(roots: &Arc<Roots>, folder: &Folder, rest: &str) -> Result<(Access, bool), Fault> {
    let tree = Tree::new(Arc::clone(roots), Arc::new(Meter::new(FsLimits::default())));
    let rest = if rest.is_empty() { "." } else { rest };
    let place = match walk::walk(&tree, folder, rest, Follow::Yes) {
        Ok(Target::Folder(folder)) => return Ok((folder.access, true)),
        Ok(Target::Entry(place)) => place,
        Err(fault) => return Err(fault),
    };
    let access = place.folder.access;
    let facts = match place.facts() {
        Err(Fault::Os(Errno::NOENT)) => return Ok((access, false)),
        facts => facts?,
    };
    let access = roots.rules().enter(facts.id, access)?;
    match facts.kind {
        Kind::Special => Err(Fault::Special),
        Kind::File if facts.links > 1 => Ok((Access::ReadOnly, true)),
        _ => Ok((access, true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lies_below_the_mounts_that_hold_it_and_a_relative_one_below_the_first() {
        for (path, mount, rest) in [
            ("/", "/", Some("")),
            ("/docs/a", "/", Some("docs/a")),
            ("/docs/a", "/docs", Some("a")),
            ("/docs2", "/docs", None),
            ("docs/a", "/", Some("docs/a")),
            ("docs/a", "/docs", None),
            (NOWHERE, "/", None),
        ] {
            assert_eq!(below(path, mount), rest, "{path} {mount}");
        }
    }
}
