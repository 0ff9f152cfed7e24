//! Redirections.

use std::collections::BTreeMap;

use super::Shell;
use crate::io::{Fd, Input, Sink};
use crate::stop::Run;
use crate::syntax::{Action, Redirect};
use crate::world::{FileError, Kind};

impl Shell {
    /// Opens what `redirects` say, in order; `false`, with a message said, where one fails.
    pub(super) fn redirect(&mut self, redirects: &[Redirect]) -> Run<bool> {
        for redirect in redirects {
            self.flush()?;
            let output = matches!(
                redirect.action,
                Action::Write(_) | Action::Append(_) | Action::Copy { output: true, .. }
            );
            let fd = redirect.fd.unwrap_or_else(|| u32::from(output));
            match self.target(&redirect.action)? {
                Ok(Some(target)) => {
                    self.fds.insert(fd, target);
                }
                Ok(None) => {
                    self.fds.remove(&fd);
                }
                Err(why) => {
                    self.say(&format!("sh: {why}\n"))?;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// What a descriptor is to become; `None` closes it.
    fn target(&mut self, action: &Action) -> Run<Result<Option<Fd>, String>> {
        Ok(match action {
            Action::Here(word) => {
                let word = word.borrow().clone();
                Ok(Some(Fd::Input(Input::bytes(self.text(&word)?.into_bytes()))))
            }
            Action::Read(word) => {
                let name = self.text(word)?;
                let input = self.open(&name);
                input.map(|input| Some(Fd::Input(input))).map_err(|why| said(&name, &why))
            }
            Action::Write(word) => self.text(word).map(|name| self.writable(&name, false))?,
            Action::Append(word) => self.text(word).map(|name| self.writable(&name, true))?,
            Action::Copy { word, .. } => {
                let number = self.text(word)?;
                self.copied(&number)
            }
        })
    }

    fn writable(&self, name: &str, append: bool) -> Result<Option<Fd>, String> {
        let standard = match name {
            "/dev/null" => Some(Fd::Output(Sink::Null)),
            "/dev/stdout" => self.fds.get(&1).cloned(),
            "/dev/stderr" => self.fds.get(&2).cloned(),
            _ => None,
        };
        if standard.is_some() {
            return Ok(standard);
        }
        let sink = self.sink(name, append).map_err(|why| said(name, &why))?;
        Ok(Some(Fd::Output(sink)))
    }

    /// A file to write to, which is made; emptied unless `append`.
    pub(crate) fn sink(&self, name: &str, append: bool) -> Result<Sink, FileError> {
        let path = self.path(name)?;
        match self.files.stat(&path, true) {
            Ok(stat) if stat.kind == Kind::Folder => return Err(FileError::is_folder()),
            // A file of that name would be in the way of every file in the folder that is meant.
            _ if name.ends_with('/') => return Err(FileError::is_folder()),
            Ok(_) if append => {}
            _ => self.files.create(&path)?,
        }
        Ok(Sink::File { files: self.files.clone(), path })
    }

    fn copied(&self, number: &str) -> Result<Option<Fd>, String> {
        if number == "-" {
            return Ok(None);
        }
        let fd = number.parse().ok().and_then(|number: u32| self.fds.get(&number));
        fd.cloned().map(Some).ok_or_else(|| format!("{number}: bad file descriptor"))
    }

    pub(super) fn replace_fds(&mut self, new: &[(u32, Fd)]) -> BTreeMap<u32, Fd> {
        let saved = self.fds.clone();
        self.fds.extend(new.iter().cloned());
        saved
    }
}

fn said(name: &str, FileError(why): &FileError) -> String {
    format!("{name}: {why}")
}
