//! `grep`, `egrep`, `fgrep`.

use crate::commands::regex::{Flavour, Regex};
use crate::commands::{chomped, lossy};
use crate::io::Input;
use crate::limits::FOLDER_DEPTH_MAX;
use crate::options::Options;
use crate::path;
use crate::pattern::Pattern;
use crate::shell::Shell;
use crate::stop::Done;
use crate::world::{FileError, Kind};

const KNOWN: &str = "rRniIvEFGe:f:coqlLhHwxsam:A:B:C:Z:Y:X:P";

const LONG: [(&str, char); 27] = [
    ("recursive", 'r'),
    ("line-number", 'n'),
    ("ignore-case", 'i'),
    ("invert-match", 'v'),
    ("extended-regexp", 'E'),
    ("fixed-strings", 'F'),
    ("regexp", 'e'),
    ("file", 'f'),
    ("count", 'c'),
    ("only-matching", 'o'),
    ("quiet", 'q'),
    ("silent", 'q'),
    ("files-with-matches", 'l'),
    ("files-without-match", 'L'),
    ("no-filename", 'h'),
    ("with-filename", 'H'),
    ("word-regexp", 'w'),
    ("line-regexp", 'x'),
    ("no-messages", 's'),
    ("text", 'a'),
    ("max-count", 'm'),
    ("after-context", 'A'),
    ("before-context", 'B'),
    ("context", 'C'),
    ("include", 'Z'),
    ("exclude", 'Y'),
    ("exclude-dir", 'X'),
];

pub(super) fn grep(shell: &mut Shell, arguments: &[String]) -> Done {
    search(shell, arguments, Flavour::Basic)
}

pub(super) fn egrep(shell: &mut Shell, arguments: &[String]) -> Done {
    search(shell, arguments, Flavour::Extended)
}

pub(super) fn fgrep(shell: &mut Shell, arguments: &[String]) -> Done {
    search(shell, arguments, Flavour::Fixed)
}

struct Search {
    options: Options,
    regex: Regex,
    /// Whether each line has its file's name in front.
    names: bool,
    matches_max: usize,
    before: usize,
    after: usize,
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
    exclude_folders: Vec<Pattern>,
    found: bool,
    failed: bool,
}

fn search(shell: &mut Shell, arguments: &[String], flavour: Flavour) -> Done {
    let plain: Vec<String> =
        arguments.iter().filter(|a| !a.starts_with("--colo")).cloned().collect();
    let (options, mut operands) = Options::all(KNOWN, &LONG, &plain)?;
    let mut patterns: Vec<String> = options.values('e').map(str::to_owned).collect();
    for name in options.values('f') {
        patterns.push(lossy(chomped(&shell.open(name)?.all()?)));
    }
    if patterns.is_empty() {
        if operands.is_empty() {
            return crate::stop::usage("a pattern is missing");
        }
        patterns.push(operands.remove(0));
    }
    let patterns: Vec<String> =
        patterns.iter().flat_map(|p| p.split('\n')).map(str::to_owned).collect();
    let flavour = match options.last_of("EFGP") {
        Some('E' | 'P') => Flavour::Extended,
        Some('F') => Flavour::Fixed,
        Some(_) => Flavour::Basic,
        None => flavour,
    };
    let around = match () {
        () if options.has('x') => ("^", "$"),
        () if options.has('w') => ("\\b", "\\b"),
        () => ("", ""),
    };
    let recursive = options.has('r') || options.has('R');
    let named = operands.len() > 1 || recursive;
    let context = options.number('C')?;
    let globs = |letter| options.values(letter).map(Pattern::new).collect();
    let mut search = Search {
        regex: Regex::any(&patterns, flavour, options.has('i'), around)?,
        names: (named || options.has('H')) && options.last_of("hH") != Some('h'),
        matches_max: options.number('m')?.unwrap_or(usize::MAX),
        before: options.number('B')?.or(context).unwrap_or(0),
        after: options.number('A')?.or(context).unwrap_or(0),
        include: globs('Z'),
        exclude: globs('Y'),
        exclude_folders: globs('X'),
        options,
        found: false,
        failed: false,
    };
    if operands.is_empty() {
        operands.push(if recursive { "." } else { "-" }.to_owned());
    }
    for name in &operands {
        search.place(shell, name, recursive)?;
        if search.found && search.options.has('q') {
            return Ok(0);
        }
    }
    Ok(if search.failed { 2 } else { i32::from(!search.found) })
}

impl Search {
    fn place(&mut self, shell: &mut Shell, name: &str, recursive: bool) -> Done<()> {
        let path = shell.path(name);
        let stat = path.and_then(|path| shell.files.stat(&path, true));
        if name != "-" && stat.is_ok_and(|stat| stat.kind == Kind::Folder) {
            if recursive {
                return self.folder(shell, name, 0);
            }
            if !self.options.has('s') {
                shell.complain(&format!("{name}: Is a directory"))?;
            }
            return Ok(());
        }
        match shell.open(name) {
            Ok(input) => self.file(shell, name, &input),
            Err(error) => self.unread(shell, name, &error),
        }
    }

    /// Takes note of what could not be searched, and says it unless nobody wants to hear.
    fn unread(&mut self, shell: &mut Shell, name: &str, error: &FileError) -> Done<()> {
        self.failed = true;
        match self.options.has('s') {
            true => Ok(()),
            false => Ok(shell.complain(&format!("{name}: {}", error.0))?),
        }
    }

    fn folder(&mut self, shell: &mut Shell, name: &str, depth: usize) -> Done<()> {
        let mut entries = match shell.path(name).and_then(|path| shell.files.list(&path)) {
            Ok(entries) => entries,
            Err(error) => return self.unread(shell, name, &error),
        };
        entries.sort();
        for (entry, kind) in entries {
            shell.tick()?;
            let own = path::join(name, &entry);
            let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(&entry));
            match kind {
                Kind::Folder if depth < FOLDER_DEPTH_MAX && !any(&self.exclude_folders) => {
                    self.folder(shell, &own, depth + 1)?;
                }
                Kind::File
                    if (self.include.is_empty() || any(&self.include)) && !any(&self.exclude) =>
                {
                    self.place(shell, &own, false)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn file(&mut self, shell: &mut Shell, name: &str, input: &Input) -> Done<()> {
        let shown = if name == "-" { "(standard input)" } else { name };
        let (mut number, mut count, mut after) = (0, 0, 0);
        let mut earlier: std::collections::VecDeque<(usize, Vec<u8>)> = Default::default();
        let mut last_shown = 0;
        let quiet = ['c', 'l', 'L', 'q'].iter().any(|letter| self.options.has(*letter));
        while let Some(line) = input.line()? {
            shell.tick()?;
            number += 1;
            let text = chomped(&line);
            let matches =
                count < self.matches_max && self.regex.is_match(text) != self.options.has('v');
            if matches {
                count += 1;
                self.found |= !self.options.has('L');
                if self.options.has('q') || self.options.has('l') || self.options.has('L') {
                    break;
                }
            }
            if quiet {
                continue;
            }
            if !matches {
                if after > 0 {
                    after -= 1;
                    self.show(shell, shown, number, '-', text)?;
                    last_shown = number;
                } else if count >= self.matches_max {
                    break;
                } else if self.before > 0 {
                    earlier.push_back((number, text.to_vec()));
                    if earlier.len() > self.before {
                        earlier.pop_front();
                    }
                }
                continue;
            }
            let first = earlier.front().map_or(number, |(number, _)| *number);
            if (self.before > 0 || self.after > 0) && last_shown > 0 && first > last_shown + 1 {
                shell.line("--")?;
            }
            for (number, text) in earlier.drain(..) {
                self.show(shell, shown, number, '-', &text)?;
            }
            self.matched(shell, shown, number, text)?;
            (after, last_shown) = (self.after, number);
        }
        self.summary(shell, shown, count)
    }

    fn summary(&mut self, shell: &mut Shell, shown: &str, count: usize) -> Done<()> {
        if self.options.has('q') {
            return Ok(());
        }
        if self.options.has('l') && count > 0 {
            shell.line(shown)?;
        } else if self.options.has('L') {
            if count == 0 {
                self.found = true;
                shell.line(shown)?;
            }
        } else if self.options.has('c') && !self.options.has('l') {
            let name = if self.names { format!("{shown}:") } else { String::new() };
            shell.line(&format!("{name}{count}"))?;
        }
        Ok(())
    }

    fn matched(&self, shell: &mut Shell, name: &str, number: usize, text: &[u8]) -> Done<()> {
        if !self.options.has('o') {
            return self.show(shell, name, number, ':', text);
        }
        if self.options.has('v') {
            return Ok(());
        }
        for (start, end) in self.regex.all(text) {
            if start < end {
                self.show(shell, name, number, ':', text.get(start..end).unwrap_or_default())?;
            }
        }
        Ok(())
    }

    fn show(
        &self,
        shell: &mut Shell,
        name: &str,
        number: usize,
        mark: char,
        text: &[u8],
    ) -> Done<()> {
        let mut front = String::new();
        if self.names {
            front = format!("{name}{mark}");
        }
        if self.options.has('n') {
            front.push_str(&format!("{number}{mark}"));
        }
        shell.out(front.as_bytes())?;
        shell.out(text)?;
        Ok(shell.out(b"\n")?)
    }
}
