//! `find`.

mod parse;

use std::time::Duration;

use crate::limits::{FIELDS_MAX, FOLDER_DEPTH_MAX};
use crate::path;
use crate::pattern::Pattern;
use crate::shell::Shell;
use crate::stop::{Done, usage};
use crate::world::{Kind, Stat};

enum Test {
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
    Always,
    Name {
        pattern: Pattern,
        ignore_case: bool,
        whole: bool,
    },
    Type(Vec<Kind>),
    Empty,
    Size(Comparison, u64),
    /// Age in seconds, counted in units of so many.
    Age(Comparison, u64),
    Newer(Duration),
    Prune,
    Print(&'static str),
    Delete,
    Quit,
    /// `-exec … ;`
    Each(Vec<String>),
    /// `-exec … {} +`: which of [`Find::batches`] collects the paths.
    Batch(usize),
}

/// `+N`, `-N` or `N`.
#[derive(Clone, Copy)]
enum Comparison {
    More(u64),
    Less(u64),
    Exactly(u64),
}

impl Comparison {
    fn holds(self, value: u64) -> bool {
        match self {
            Self::More(than) => value > than,
            Self::Less(than) => value < than,
            Self::Exactly(one) => value == one,
        }
    }
}

struct Find {
    test: Test,
    batches: Vec<(Vec<String>, Vec<String>)>,
    depth_min: usize,
    depth_max: usize,
    children_first: bool,
    acts: bool,
    quit: bool,
    status: i32,
}

struct Place<'a> {
    shown: &'a str,
    plain: &'a str,
    stat: Stat,
}

pub(super) fn find(shell: &mut Shell, arguments: &[String]) -> Done {
    let expression = arguments.iter().position(|a| a.starts_with('-') || a == "!" || a == "(");
    let (starts, words) = arguments.split_at(expression.unwrap_or(arguments.len()));
    let mut find = Find {
        test: Test::Always,
        batches: Vec::new(),
        depth_min: 0,
        depth_max: FOLDER_DEPTH_MAX,
        children_first: false,
        acts: false,
        quit: false,
        status: 0,
    };
    let mut rest = words;
    find.test = find.either(shell, &mut rest, 0)?;
    if let Some(word) = rest.first() {
        return usage(format!("{word} is not expected here"));
    }
    if !find.acts {
        let test = std::mem::replace(&mut find.test, Test::Always);
        find.test = Test::And(vec![test, Test::Print("\n")]);
    }
    let here = [".".to_owned()];
    for start in if starts.is_empty() { &here } else { starts } {
        let plain = shell.path(start)?;
        match shell.files.stat(&plain, false) {
            Ok(stat) => find.walk(shell, &Place { shown: start, plain: &plain, stat }, 0)?,
            Err(error) => {
                shell.complain(&format!("{start}: {}", error.0))?;
                find.status = 1;
            }
        }
    }
    for (command, paths) in std::mem::take(&mut find.batches) {
        if !paths.is_empty() {
            let line: Vec<String> = command.into_iter().chain(paths).collect();
            let status = shell.subshell(&[], |shell| shell.invoke(&line))?;
            find.status |= i32::from(status != 0);
        }
    }
    Ok(find.status)
}

impl Find {
    fn walk(&mut self, shell: &mut Shell, place: &Place<'_>, depth: usize) -> Done<()> {
        shell.tick()?;
        let mut pruned = false;
        if !self.children_first {
            self.visit(shell, place, depth, &mut pruned)?;
        }
        if place.stat.kind == Kind::Folder && depth < self.depth_max && !pruned {
            self.children(shell, place, depth)?;
        }
        if self.children_first {
            self.visit(shell, place, depth, &mut pruned)?;
        }
        Ok(())
    }

    fn visit(
        &mut self,
        shell: &mut Shell,
        place: &Place<'_>,
        depth: usize,
        pruned: &mut bool,
    ) -> Done<()> {
        if depth < self.depth_min || self.quit {
            return Ok(());
        }
        // The test is lent out, as an action may note something in `self`.
        let test = std::mem::replace(&mut self.test, Test::Always);
        let result = self.holds(shell, &test, place, pruned);
        self.test = test;
        result.map(|_| ())
    }

    fn children(&mut self, shell: &mut Shell, place: &Place<'_>, depth: usize) -> Done<()> {
        let mut entries = match shell.files.list(place.plain) {
            Ok(entries) => entries,
            Err(error) => {
                self.status = 1;
                return Ok(shell.complain(&format!("{}: {}", place.shown, error.0))?);
            }
        };
        entries.sort();
        for (name, kind) in entries {
            if self.quit {
                break;
            }
            let (shown, plain) = (path::join(place.shown, &name), path::plain(place.plain, &name));
            let unknown = Stat { kind, size: 0, modified: Duration::ZERO };
            let stat = shell.files.stat(&plain, false).unwrap_or(unknown);
            self.walk(shell, &Place { shown: &shown, plain: &plain, stat }, depth + 1)?;
        }
        Ok(())
    }

    fn holds(
        &mut self,
        shell: &mut Shell,
        test: &Test,
        place: &Place<'_>,
        pruned: &mut bool,
    ) -> Done<bool> {
        Ok(match test {
            Test::Always => true,
            Test::And(tests) => {
                for test in tests {
                    if !self.holds(shell, test, place, pruned)? {
                        return Ok(false);
                    }
                }
                true
            }
            Test::Or(tests) => {
                for test in tests {
                    if self.holds(shell, test, place, pruned)? {
                        return Ok(true);
                    }
                }
                false
            }
            Test::Not(test) => !self.holds(shell, test, place, pruned)?,
            Test::Name { pattern, ignore_case, whole } => {
                let name = if *whole { place.shown } else { path::base(place.shown) };
                if *ignore_case {
                    pattern.matches(&name.to_lowercase())
                } else {
                    pattern.matches(name)
                }
            }
            Test::Type(kinds) => kinds.contains(&place.stat.kind),
            Test::Empty => match place.stat.kind {
                Kind::Folder => shell.files.list(place.plain)?.is_empty(),
                kind => kind == Kind::File && place.stat.size == 0,
            },
            Test::Size(wanted, unit) => wanted.holds(place.stat.size.div_ceil(*unit)),
            Test::Age(wanted, unit) => {
                let age = shell.clock.wall().saturating_sub(place.stat.modified).as_secs();
                wanted.holds(age / unit)
            }
            Test::Newer(than) => place.stat.modified > *than,
            _ => return self.act(shell, test, place, pruned),
        })
    }

    fn act(
        &mut self,
        shell: &mut Shell,
        test: &Test,
        place: &Place<'_>,
        pruned: &mut bool,
    ) -> Done<bool> {
        match test {
            Test::Prune => *pruned = true,
            Test::Quit => self.quit = true,
            Test::Print(end) => shell.out(format!("{}{end}", place.shown).as_bytes())?,
            Test::Delete if place.plain == "." => {}
            Test::Delete => {
                let removed = match place.stat.kind {
                    Kind::Folder => shell.files.remove_folder(place.plain),
                    _ => shell.files.remove_file(place.plain),
                };
                if let Err(error) = removed {
                    self.status = 1;
                    shell.complain(&format!("{}: {}", place.shown, error.0))?;
                    return Ok(false);
                }
            }
            Test::Each(command) => {
                let line: Vec<String> =
                    command.iter().map(|w| w.replace("{}", place.shown)).collect();
                return Ok(shell.subshell(&[], |shell| shell.invoke(&line))? == 0);
            }
            Test::Batch(at) => {
                if let Some((_, paths)) = self.batches.get_mut(*at) {
                    if paths.len() >= FIELDS_MAX {
                        return usage(format!("more than {FIELDS_MAX} files for one -exec"));
                    }
                    paths.push(place.shown.to_owned());
                }
            }
            _ => {}
        }
        Ok(true)
    }
}
