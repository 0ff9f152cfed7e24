//! `ls`.

use crate::commands::date::Moment;
use crate::limits::FOLDER_DEPTH_MAX;
use crate::options::Options;
use crate::path;
use crate::shell::Shell;
use crate::stop::Done;
use crate::world::{Kind, Stat};

struct Item {
    /// As it is shown.
    name: String,
    stat: Stat,
}

pub(super) fn ls(shell: &mut Shell, arguments: &[String]) -> Done {
    let long = [
        ("all", 'a'),
        ("almost-all", 'A'),
        ("reverse", 'r'),
        ("recursive", 'R'),
        ("human-readable", 'h'),
        ("directory", 'd'),
    ];
    let plain: Vec<String> =
        arguments.iter().filter(|a| !a.starts_with("--colo")).cloned().collect();
    let (options, mut operands) = Options::all("1aAldrRtSFhpiCgnGs", &long, &plain)?;
    if operands.is_empty() {
        operands.push(".".to_owned());
    }
    let (mut files, mut folders, mut status) = (Vec::new(), Vec::new(), 0);
    for name in &operands {
        let stat = shell.path(name).and_then(|path| shell.files.stat(&path, !options.has('d')));
        match stat {
            Ok(stat) if stat.kind == Kind::Folder && !options.has('d') => {
                folders.push(name.clone())
            }
            Ok(stat) => files.push(Item { name: name.clone(), stat }),
            Err(error) => {
                shell.complain(&format!("{name}: {}", error.0))?;
                status = 2;
            }
        }
    }
    let mut first = files.is_empty();
    show(shell, &options, files)?;
    folders.sort();
    for name in &folders {
        let titled = operands.len() > 1 || options.has('R');
        folder(shell, &options, name, (titled, &mut first), 0)?;
    }
    Ok(status)
}

fn folder(
    shell: &mut Shell,
    options: &Options,
    name: &str,
    (titled, first): (bool, &mut bool),
    depth: usize,
) -> Done<()> {
    if titled {
        let before = if *first { "" } else { "\n" };
        shell.line(&format!("{before}{name}:"))?;
    }
    *first = false;
    let plain = shell.path(name)?;
    let mut items = Vec::new();
    if options.has('a') {
        for name in [".", ".."] {
            items.push(Item { name: name.to_owned(), stat: shell.files.stat(&plain, true)? });
        }
    }
    for (own, kind) in shell.files.list(&plain)? {
        if own.starts_with('.') && !options.has('a') && !options.has('A') {
            continue;
        }
        // What cannot be looked at is still a name.
        let stat = shell.files.stat(&path::plain(&plain, &own), false);
        let stat = stat.unwrap_or(Stat { kind, size: 0, modified: std::time::Duration::ZERO });
        items.push(Item { name: own, stat });
    }
    let inner: Vec<String> = items
        .iter()
        .filter(|item| item.stat.kind == Kind::Folder && item.name != "." && item.name != "..")
        .map(|item| path::join(name, &item.name))
        .collect();
    show(shell, options, items)?;
    if options.has('R') && depth < FOLDER_DEPTH_MAX {
        let mut inner = inner;
        inner.sort();
        for name in inner {
            folder(shell, options, &name, (true, first), depth + 1)?;
        }
    }
    Ok(())
}

fn show(shell: &mut Shell, options: &Options, mut items: Vec<Item>) -> Done<()> {
    items.sort_by(|left, right| left.name.cmp(&right.name));
    if options.has('t') {
        items.sort_by_key(|item| std::cmp::Reverse(item.stat.modified));
    } else if options.has('S') {
        items.sort_by_key(|item| std::cmp::Reverse(item.stat.size));
    }
    if options.has('r') {
        items.reverse();
    }
    let widest = items.iter().map(|item| size(options, &item.stat).len()).max().unwrap_or(0);
    for item in items {
        let mark = match item.stat.kind {
            Kind::Folder if options.has('F') || options.has('p') => "/",
            Kind::Link if options.has('F') => "@",
            _ => "",
        };
        if options.has('l') {
            shell.out(details(options, &item.stat, widest).as_bytes())?;
        }
        shell.line(&format!("{}{mark}", item.name))?;
    }
    Ok(())
}

/// Owners and modes are the host's: what is shown is what the grant means.
fn details(options: &Options, stat: &Stat, widest: usize) -> String {
    let mode = match stat.kind {
        Kind::Folder => "drwxr-xr-x",
        Kind::Link => "lrwxrwxrwx",
        Kind::File | Kind::Other => "-rw-r--r--",
    };
    let seconds = i64::try_from(stat.modified.as_secs()).unwrap_or(0);
    let time = Moment::new(seconds).format("%Y-%m-%d %H:%M", 0);
    format!("{mode} 1 - - {:>widest$} {time} ", size(options, stat))
}

fn size(options: &Options, stat: &Stat) -> String {
    let mut units = ["", "K", "M", "G", "T"].into_iter();
    let (mut size, mut unit) = (stat.size, units.next().unwrap_or_default());
    while options.has('h') && size >= 1024 {
        size = size.div_ceil(1024);
        unit = units.next().unwrap_or_default();
    }
    format!("{size}{unit}")
}
