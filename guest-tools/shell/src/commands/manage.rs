//! Commands that change files: `cp`, `mv`, `rm`, `mkdir`, `rmdir`, `touch`, `truncate`, `mktemp`.

use std::time::Duration;

use crate::commands::date;
use crate::limits::FOLDER_DEPTH_MAX;
use crate::options::Options;
use crate::path;
use crate::shell::Shell;
use crate::stop::{Done, failed, usage};
use crate::world::{FileError, Filed, Kind};

/// Names tried for a temporary file.
const NAMES_MAX: u64 = 10_000;

impl Shell {
    fn kind(&self, plain: &str, follow: bool) -> Option<Kind> {
        self.files.stat(plain, follow).ok().map(|stat| stat.kind)
    }

    /// Says why `name` could not be used, and returns status 1.
    fn refused(&mut self, name: &str, result: Filed<()>) -> Done {
        match result {
            Ok(()) => Ok(0),
            Err(FileError(why)) => {
                self.complain(&format!("{name}: {why}"))?;
                Ok(1)
            }
        }
    }
}

/// Sources with the place each goes to.
fn pairs(
    shell: &Shell,
    options: &Options,
    mut operands: Vec<String>,
) -> Done<Vec<(String, String)>> {
    let target = match options.value('t') {
        Some(target) => Some(target.to_owned()),
        None => operands.pop(),
    };
    let Some(target) = target.filter(|_| !operands.is_empty()) else {
        return usage("a source and a destination are needed");
    };
    let plain = shell.path(&target)?;
    let into = shell.kind(&plain, true) == Some(Kind::Folder) && !options.has('T');
    let is_file = |name: &String| {
        let kind = shell.path(name).ok().and_then(|from| shell.kind(&from, true));
        kind.is_some_and(|kind| kind != Kind::Folder)
    };
    let is_no_place = target.ends_with('/') && operands.iter().any(is_file);
    if !into && (operands.len() > 1 || is_no_place) {
        return failed(format!("{target}: Not a directory"));
    }
    let place =
        |name: &str| if into { path::plain(&plain, path::base(name)) } else { plain.clone() };
    Ok(operands.iter().map(|name| (name.clone(), place(name))).collect())
}

pub(super) fn cp(shell: &mut Shell, arguments: &[String]) -> Done {
    let long = [("recursive", 'r'), ("force", 'f'), ("archive", 'a'), ("no-clobber", 'n')];
    let (options, operands) = Options::all("rRafnpvt:Tu", &long, arguments)?;
    let deep = ['r', 'R', 'a'].iter().any(|letter| options.has(*letter));
    let mut status = 0;
    for (name, to) in pairs(shell, &options, operands)? {
        let from = shell.path(&name)?;
        let result = match shell.files.stat(&from, true) {
            Err(error) => Err(error),
            Ok(stat) if stat.kind == Kind::Folder && !deep => {
                Err(FileError("it is a directory, and -r is not given".to_owned()))
            }
            Ok(_) if from == to => Err(FileError("it is the destination itself".to_owned())),
            Ok(_) if format!("{to}/").starts_with(&format!("{from}/")) => {
                Err(FileError("a directory cannot go into itself".to_owned()))
            }
            Ok(_) if options.has('n') && shell.kind(&to, false).is_some() => Ok(()),
            Ok(_) => copy(shell, &from, &to, 0)?,
        };
        if options.has('v') && result.is_ok() {
            shell.line(&format!("'{name}' -> '{to}'"))?;
        }
        status |= shell.refused(&name, result)?;
    }
    Ok(status)
}

fn copy(shell: &mut Shell, from: &str, to: &str, depth: usize) -> Done<Filed<()>> {
    shell.tick()?;
    if shell.kind(from, true) != Some(Kind::Folder) {
        return Ok(copy_file(shell, from, to));
    }
    if depth >= FOLDER_DEPTH_MAX {
        return Ok(Err(FileError("nested too deeply".to_owned())));
    }
    if shell.kind(to, true) != Some(Kind::Folder)
        && let Err(error) = shell.files.make_folder(to)
    {
        return Ok(Err(error));
    }
    let entries = match shell.files.list(from) {
        Ok(entries) => entries,
        Err(error) => return Ok(Err(error)),
    };
    for (name, _) in entries {
        let result = copy(shell, &path::plain(from, &name), &path::plain(to, &name), depth + 1)?;
        if result.is_err() {
            return Ok(result);
        }
    }
    Ok(Ok(()))
}

fn copy_file(shell: &Shell, from: &str, to: &str) -> Filed<()> {
    // By whatever names: to write into it would empty it first.
    if shell.files.is_same(from, to).unwrap_or_default() {
        return Err(FileError("it is the destination itself".to_owned()));
    }
    let bytes_at_once = crate::limits::CHUNK_BYTES;
    let mut chunk = shell.files.read(from, 0, bytes_at_once)?;
    shell.files.create(to)?;
    let mut offset = 0;
    while !chunk.is_empty() {
        shell.files.append(to, &chunk)?;
        offset += chunk.len() as u64;
        chunk = shell.files.read(from, offset, bytes_at_once)?;
    }
    Ok(())
}

pub(super) fn mv(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, operands) =
        Options::all("fnvt:T", &[("force", 'f'), ("no-clobber", 'n')], arguments)?;
    let mut status = 0;
    for (name, to) in pairs(shell, &options, operands)? {
        let from = shell.path(&name)?;
        if options.has('n') && shell.kind(&to, false).is_some() {
            continue;
        }
        let result = match () {
            () if from == to => Err(FileError("it is the destination itself".to_owned())),
            () if to.starts_with(&format!("{from}/")) => {
                Err(FileError("a directory cannot go into itself".to_owned()))
            }
            () => shell.files.rename(&from, &to),
        };
        if options.has('v') && result.is_ok() {
            shell.line(&format!("renamed '{name}' -> '{to}'"))?;
        }
        status |= shell.refused(&name, result)?;
    }
    Ok(status)
}

pub(super) fn rm(shell: &mut Shell, arguments: &[String]) -> Done {
    let long = [("recursive", 'r'), ("force", 'f'), ("dir", 'd')];
    let (options, operands) = Options::all("rRfdvi", &long, arguments)?;
    let (force, deep) = (options.has('f'), options.has('r') || options.has('R'));
    if operands.is_empty() && !force {
        return usage("a name is missing");
    }
    let mut status = 0;
    for name in operands {
        let plain = shell.path(&name)?;
        let result = match shell.kind(&plain, false) {
            None if force => Ok(()),
            _ if plain == "." || matches!(path::base(&name), "." | "..") => {
                Err(FileError("this folder cannot be removed".to_owned()))
            }
            Some(Kind::Folder) if deep => remove(shell, &plain, 0)?,
            Some(Kind::Folder) if options.has('d') => shell.files.remove_folder(&plain),
            Some(Kind::Folder) => Err(FileError::is_folder()),
            _ => shell.files.remove_file(&plain),
        };
        if options.has('v') && result.is_ok() {
            shell.line(&format!("removed '{name}'"))?;
        }
        status |= shell.refused(&name, result)?;
    }
    Ok(status)
}

/// Links are removed, never followed.
fn remove(shell: &mut Shell, plain: &str, depth: usize) -> Done<Filed<()>> {
    let entries = match shell.files.list(plain) {
        Ok(_) if depth >= FOLDER_DEPTH_MAX => {
            return Ok(Err(FileError("nested too deeply".to_owned())));
        }
        Ok(entries) => entries,
        Err(error) => return Ok(Err(error)),
    };
    for (name, kind) in entries {
        shell.tick()?;
        let own = path::plain(plain, &name);
        let result = match kind {
            Kind::Folder => remove(shell, &own, depth + 1)?,
            _ => shell.files.remove_file(&own),
        };
        if result.is_err() {
            return Ok(result);
        }
    }
    Ok(shell.files.remove_folder(plain))
}

pub(super) fn mkdir(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, operands) = Options::all("pvm:", &[("parents", 'p')], arguments)?;
    if operands.is_empty() {
        return usage("a name is missing");
    }
    let mut status = 0;
    for name in operands {
        let plain = shell.path(&name)?;
        let result =
            if options.has('p') { parents(shell, &plain) } else { shell.files.make_folder(&plain) };
        status |= shell.refused(&name, result)?;
    }
    Ok(status)
}

fn parents(shell: &Shell, plain: &str) -> Filed<()> {
    let mut so_far = String::new();
    for step in plain.split('/') {
        so_far = path::join(&so_far, step);
        match shell.kind(&so_far, true) {
            Some(Kind::Folder) => {}
            Some(_) => return Err(FileError("Not a directory".to_owned())),
            None => shell.files.make_folder(&so_far)?,
        }
    }
    Ok(())
}

pub(super) fn rmdir(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, operands) = Options::all("p", &[("parents", 'p')], arguments)?;
    let mut status = 0;
    for name in operands {
        let mut plain = shell.path(&name)?;
        let mut result = shell.files.remove_folder(&plain);
        while options.has('p') && result.is_ok() {
            let Some((parent, _)) = plain.rsplit_once('/') else { break };
            plain = parent.to_owned();
            result = shell.files.remove_folder(&plain);
        }
        status |= shell.refused(&name, result)?;
    }
    Ok(status)
}

pub(super) fn touch(shell: &mut Shell, arguments: &[String]) -> Done {
    let long = [("no-create", 'c'), ("date", 'd'), ("reference", 'r')];
    let (options, operands) = Options::all("cd:r:amt:", &long, arguments)?;
    let now = shell.clock.wall();
    let seconds = i64::try_from(now.as_secs()).unwrap_or(0);
    let time = match (options.value('d'), options.value('r')) {
        (Some(text), _) => match date::parse(text, seconds).and_then(|s| u64::try_from(s).ok()) {
            Some(seconds) => Duration::from_secs(seconds),
            None => return failed(format!("{text:?} is no date here")),
        },
        (None, Some(name)) => shell.files.stat(&shell.path(name)?, true)?.modified,
        (None, None) if options.has('t') => return usage("-t is not there; use -d"),
        (None, None) => now,
    };
    let mut status = 0;
    for name in operands {
        let plain = shell.path(&name)?;
        let result = match shell.files.stat(&plain, true) {
            Err(_) if options.has('c') => Ok(()),
            Err(error) if name.ends_with('/') => Err(error),
            Err(_) => shell.files.create(&plain).and_then(|()| {
                if options.has('d') || options.has('r') {
                    shell.files.set_modified(&plain, time)
                } else {
                    Ok(())
                }
            }),
            Ok(_) => shell.files.set_modified(&plain, time),
        };
        status |= shell.refused(&name, result)?;
    }
    Ok(status)
}

pub(super) fn truncate(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, operands) = Options::all("s:c", &[("size", 's')], arguments)?;
    if options.value('s') != Some("0") {
        return usage("only -s 0 is there");
    }
    let mut status = 0;
    for name in operands {
        let result = shell.sink(&name, false).map(drop);
        status |= shell.refused(&name, result)?;
    }
    Ok(status)
}

/// A name nobody has; here that is enough, as nobody else runs.
pub(super) fn mktemp(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, operands) = Options::all("dqtup:", &[("directory", 'd')], arguments)?;
    let template = operands.first().map_or("tmp.XXXXXXXX", String::as_str);
    let stem = template.trim_end_matches('X');
    let start = u64::from(shell.clock.wall().subsec_nanos());
    for number in start..start + NAMES_MAX {
        let name = format!("{stem}{number:010}");
        let plain = shell.path(&name)?;
        if shell.kind(&plain, false).is_none() {
            if options.has('d') {
                shell.files.make_folder(&plain)?
            } else {
                shell.files.create(&plain)?
            }
            shell.line(&name)?;
            return Ok(0);
        }
    }
    failed("no name is free")
}
