//! `tree`: what lies below a folder.

use crate::limits::FOLDER_DEPTH_MAX;
use crate::options::Options;
use crate::path;
use crate::shell::Shell;
use crate::stop::Done;
use crate::world::Kind;

pub(super) fn tree(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, operands) = Options::all("aL:d", &[], arguments)?;
    let depth = options.number('L')?.unwrap_or(FOLDER_DEPTH_MAX).min(FOLDER_DEPTH_MAX);
    let here = [".".to_owned()];
    for name in if operands.is_empty() { &here } else { operands.as_slice() } {
        let plain = shell.path(name)?;
        shell.files.stat(&plain, true)?;
        shell.line(name)?;
        below(shell, &options, &plain, "", depth)?;
    }
    Ok(0)
}

fn below(
    shell: &mut Shell,
    options: &Options,
    folder: &str,
    front: &str,
    depth: usize,
) -> Done<()> {
    if depth == 0 {
        return Ok(());
    }
    let mut entries = shell.files.list(folder)?;
    entries.retain(|(name, kind)| {
        (options.has('a') || !name.starts_with('.')) && (!options.has('d') || *kind == Kind::Folder)
    });
    entries.sort();
    let count = entries.len();
    for (at, (name, kind)) in entries.into_iter().enumerate() {
        shell.tick()?;
        let (branch, trunk) =
            if at + 1 == count { ("└── ", "    ") } else { ("├── ", "│   ") };
        shell.line(&format!("{front}{branch}{name}"))?;
        if kind == Kind::Folder {
            let own = path::plain(folder, &name);
            below(shell, options, &own, &format!("{front}{trunk}"), depth - 1)?;
        }
    }
    Ok(())
}
