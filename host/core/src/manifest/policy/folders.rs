//! `path_within` beside the folders that profiles grant: it is written as tools see folders, and
//! a path of the host in its place would restrict nothing, so that is refused.

use std::path::Path;

use super::{PATH_WITHIN, rules};
use crate::grants::Mount;
use crate::manifest::node::Node;
use crate::manifest::problem::Problems;
use crate::manifest::shape::shown;
use crate::policy::{Folder, Policy};

/// Reports folders of rules that are the host's name of something that tools know by another.
pub(crate) fn check(spec: &Node, mounts: &[&Mount], report: &mut Problems) {
    for node in rules(spec).iter().filter_map(|rule| rule.get(PATH_WITHIN)) {
        let text = node.as_text().unwrap_or_default();
        let seen = mounts.iter().filter_map(|mount| as_seen(mount, Path::new(text))).next();
        if let Some(seen) =
            seen.filter(|seen| Folder::parse(text).is_ok_and(|of| of.as_str() != seen))
        {
            let reason = format!("`path_within` is `{}`, a path of the host", shown(text));
            let help = format!(
                "tools see that folder as `{seen}`: write `{seen}`; if you mean a folder of that name inside the granted one, write `.{text}`"
            );
            report.invalid(&node.at, reason, help);
        }
    }
}

/// Returns what tools call the host's `path`, where it lies in `mount`.
fn as_seen(mount: &Mount, path: &Path) -> Option<String> {
    let below = path.strip_prefix(&mount.host).ok().filter(|_| path.is_absolute())?;
    Some(Folder::parse(&format!("{}/{}", mount.guest, below.display())).ok()?.as_str().to_owned())
}

/// Says which folders of rules are probably meant to be another: what tools see as `/`, by the
/// name that it has on the host.
pub(crate) fn note(policies: &[Policy], mounts: &[&Mount]) -> Vec<String> {
    let rules = policies.iter().flat_map(|policy| &policy.rules);
    let note = |(at, folder): (&str, &Folder)| {
        let seen = mounts.iter().find_map(|mount| meant(mount, folder))?;
        Some(format!(
            "{at}: `path_within` is `{folder}`, as tools see folders; if you mean the host's, that is `{seen}`"
        ))
    };
    let folders = rules.filter_map(|rule| Some((rule.at.as_str(), rule.path_within.as_ref()?)));
    folders.filter_map(note).collect()
}

/// Returns what tools call the folder of the host that `folder` would be the name of.
fn meant(mount: &Mount, folder: &Folder) -> Option<String> {
    let whole = Path::new(folder.as_str());
    let named = mount.host.file_name().map(|name| Path::new("/").join(name));
    let below = named.filter(|_| mount.guest == "/").and_then(|named| {
        let below = whole.strip_prefix(named).ok()?;
        Some(format!("/{}", below.display()))
    });
    let seen = as_seen(mount, whole).or(below)?;
    (seen != folder.as_str()).then_some(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::Access;

    fn mount(host: &str, guest: &str) -> Mount {
        let (host, guest) = (host.into(), guest.to_owned());
        Mount { host, guest, access: Access::ReadOnly, create: false }
    }

    #[test]
    fn a_folder_of_the_host_is_known_by_what_tools_call_it() {
        let seen = |host, guest, path| as_seen(&mount(host, guest), Path::new(path));
        assert_eq!(seen("/srv/w", "/", "/srv/w").as_deref(), Some("/"));
        assert_eq!(seen("/srv/w", "/", "/srv/w/a/b").as_deref(), Some("/a/b"));
        assert_eq!(seen("/srv/w", "/w", "/srv/w/a").as_deref(), Some("/w/a"));
        assert_eq!(seen("/srv/w", "/", "/srv/www"), None);
        assert_eq!(seen("/srv/w", "/", "srv/w"), None);
        assert_eq!(seen("/", "/", "/docs").as_deref(), Some("/docs"));
    }

    #[test]
    fn the_hosts_name_of_the_first_folder_is_pointed_out() {
        let meant =
            |host, guest, folder| meant(&mount(host, guest), &Folder::parse(folder).unwrap());
        assert_eq!(meant("/srv/workspace", "/", "/workspace").as_deref(), Some("/"));
        assert_eq!(meant("/srv/workspace", "/", "workspace/a").as_deref(), Some("/a"));
        assert_eq!(meant("/srv/workspace", "/workspace", "/workspace"), None);
        assert_eq!(meant("/workspace", "/", "/workspace/a").as_deref(), Some("/a"));
        assert_eq!(meant("/srv/workspace", "/", "/docs"), None);
        assert_eq!(meant("/srv/workspace", "/", "/"), None);
    }
}
