//! Variables, and how many bytes they may have.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::limits::{VALUE_BYTES_MAX, VARIABLES_BYTES_MAX};
use crate::stop::{Run, Stop};

/// One variable. Text is shared, so that a subshell costs little.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variable {
    pub(crate) value: Option<Rc<str>>,
    pub(crate) exported: bool,
    pub(crate) readonly: bool,
}

/// All variables of one shell.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variables {
    all: BTreeMap<Rc<str>, Variable>,
    bytes: usize,
}

impl Variables {
    pub(crate) fn get(&self, name: &str) -> Option<Rc<str>> {
        self.all.get(name).and_then(|variable| variable.value.clone())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Variable)> {
        self.all.iter().map(|(name, variable)| (&**name, variable))
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) -> Run<()> {
        if self.all.get(name).is_some_and(|variable| variable.readonly) {
            return Err(Stop::Refused(format!("{name}: is read only")));
        }
        let mut variable = self.take(name);
        variable.value = Some(value.into());
        self.put(name, variable)
    }

    pub(crate) fn export(&mut self, name: &str) -> Run<()> {
        let variable = Variable { exported: true, ..self.take(name) };
        self.put(name, variable)
    }

    pub(crate) fn make_readonly(&mut self, name: &str) -> Run<()> {
        let variable = Variable { readonly: true, ..self.take(name) };
        self.put(name, variable)
    }

    /// Drops what a new shell does not get.
    pub(crate) fn keep_exported(&mut self) {
        let kept = ["HOME", "PWD", "IFS", "OPTIND"];
        self.all.retain(|name, variable| variable.exported || kept.contains(&&**name));
        let values = self.all.values().filter_map(|variable| variable.value.as_ref());
        self.bytes = values.map(|value| value.len()).sum();
    }

    /// Takes a variable out, for [`Self::put`] to bring back.
    pub(crate) fn take(&mut self, name: &str) -> Variable {
        let variable = self.all.remove(name).unwrap_or_default();
        self.bytes -= variable.value.as_ref().map_or(0, |value| value.len());
        variable
    }

    pub(crate) fn saved(&self, name: &str) -> Option<Variable> {
        self.all.get(name).cloned()
    }

    pub(crate) fn put(&mut self, name: &str, variable: Variable) -> Run<()> {
        let bytes = variable.value.as_ref().map_or(0, |value| value.len());
        self.bytes += bytes;
        self.all.insert(name.into(), variable);
        if bytes > VALUE_BYTES_MAX {
            return Err(Stop::Fatal(format!("{name} has more than {VALUE_BYTES_MAX} bytes")));
        }
        if self.bytes + self.all.len() * 64 > VARIABLES_BYTES_MAX {
            let why = format!("all variables have more than {VARIABLES_BYTES_MAX} bytes");
            return Err(Stop::Fatal(why));
        }
        Ok(())
    }

    /// Puts back what [`Self::saved`] found.
    pub(crate) fn restore(&mut self, name: &str, saved: Option<Variable>) -> Run<()> {
        self.take(name);
        saved.map_or(Ok(()), |variable| self.put(name, variable))
    }
}
