//! File names from patterns.

use crate::limits::FIELDS_MAX;
use crate::path;
use crate::pattern::Pattern;
use crate::shell::Shell;
use crate::stop::{Run, Stop};
use crate::world::Kind;

impl Shell {
    /// The paths that match, sorted; none where nothing does.
    pub(super) fn glob(&mut self, pattern: &str) -> Run<Vec<String>> {
        let absolute = pattern.starts_with('/');
        let mut found = vec![if absolute { "/".to_owned() } else { String::new() }];
        let steps: Vec<&str> = pattern.split('/').filter(|step| !step.is_empty()).collect();
        let folders = pattern.ends_with('/');
        for (index, step) in steps.iter().enumerate() {
            let last = index + 1 == steps.len() && !folders;
            found = self.glob_step(&found, &Pattern::new(step), last)?;
        }
        found.sort();
        if folders {
            found = found.iter().filter_map(|name| self.existing(format!("{name}/"))).collect();
        }
        Ok(found)
    }

    fn glob_step(&mut self, folders: &[String], step: &Pattern, last: bool) -> Run<Vec<String>> {
        let mut found = Vec::new();
        for folder in folders {
            self.tick()?;
            if step.is_plain() {
                found.extend(self.existing(path::join(folder, &step.plain())));
            } else {
                self.matching(folder, step, last, &mut found);
            }
            if found.len() > FIELDS_MAX {
                return Err(Stop::Fatal(format!("more than {FIELDS_MAX} file names")));
            }
        }
        Ok(found)
    }

    fn existing(&self, name: String) -> Option<String> {
        let path = self.path(&name).ok()?;
        let stat = self.files.stat(&path, name.ends_with('/')).ok()?;
        (stat.kind == Kind::Folder || !name.ends_with('/')).then_some(name)
    }

    /// A folder that cannot be read holds nothing that matches.
    fn matching(&self, folder: &str, step: &Pattern, last: bool, found: &mut Vec<String>) {
        let path = path::plain(&self.state.folder, folder);
        for (name, kind) in self.files.list(&path).unwrap_or_default() {
            let hidden = name.starts_with('.') && !step.starts_with_dot();
            let can_go_on = last || matches!(kind, Kind::Folder | Kind::Link);
            if !hidden && can_go_on && step.matches(&name) {
                found.push(path::join(folder, &name));
            }
        }
    }
}
