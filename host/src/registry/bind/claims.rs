//! Which files have a name: of several that offer the same tool none serves it.
//!
//! What the manifest grants goes by a tool's name, which a component gives itself, and which file came
//! first is another after each start. So no file takes a name from another, nor from one that cannot be
//! used just now, which has what it last offered. What was pulled is called by the operator, and only
//! under that name it is what the manifest means.

use std::collections::{BTreeMap, BTreeSet};

use clawhost_core::catalog::ckp_name;
use clawhost_core::manifest::ToolBinding;

use super::{Binder, Draft};
use crate::registry::drop_in::{self, DropIn};
use crate::registry::offer::{Offer, Offered};

/// Which CKP names the files have: those of catalogs, as they are written.
#[derive(Debug, Default)]
pub(in crate::registry) struct Claims {
    names: BTreeMap<String, BTreeSet<String>>,
    files: BTreeMap<String, Vec<String>>,
}

impl Claims {
    /// Returns which names they have now. A file that does not say what it offers has what it had.
    pub(super) fn renewed(&self, files: &[&DropIn]) -> Self {
        let mut now = Self::default();
        for file in files {
            let names: BTreeSet<String> = match file.status.offer() {
                Some(offer) => offer.tools.iter().map(|tool| tool.ckp_name.clone()).collect(),
                None => self.names.get(&file.name).cloned().unwrap_or_default(),
            };
            for name in &names {
                now.files.entry(name.clone()).or_default().push(file.name.clone());
            }
            now.names.insert(file.name.clone(), names);
        }
        now
    }

    /// Returns the other files that have the name, as people read them.
    fn rivals(&self, file: &str, ckp_name: &str) -> Option<String> {
        let files = self.files.get(ckp_name).into_iter().flatten();
        let others: Vec<String> =
            files.filter(|other| *other != file).map(|other| format!("`{other}`")).collect();
        (!others.is_empty()).then(|| others.join(", "))
    }
}

impl Binder {
    /// Binds a file's tool by the document beside it, else by what the manifest says, where the name is
    /// this file's to have.
    pub(super) fn bind_claimed(
        &self,
        draft: &mut Draft,
        file: &DropIn,
        (offer, tool): (&Offer, &Offered),
        sidecar: Option<&ToolBinding>,
    ) {
        let name = &tool.definition.name;
        let binding = sidecar.or_else(|| self.listed(name));
        let of_manifest = binding.filter(|_| sidecar.is_none() && offer.is_pulled);
        let reason = match self.claims.rivals(&file.name, &tool.ckp_name) {
            Some(others) => Some(format!(
                "{others} has it too, or had it before it failed: none of these files serves it until all but one are taken away"
            )),
            None => of_manifest.and_then(|binding| misnamed(&file.name, binding)),
        };
        let Some(reason) = reason else { return self.bind_signed(draft, offer, tool, binding) };
        draft.offered.extend(binding.map(|binding| binding.name.clone()));
        draft.refuse_tool(&offer.origin, name, &format!("tool `{name}`: {reason}"));
    }
}

/// Says why a file that was pulled is not what the manifest binds, where it is called otherwise.
fn misnamed(file: &str, ToolBinding { name, at, .. }: &ToolBinding) -> Option<String> {
    let stem = drop_in::stem(file).unwrap_or(file);
    (ckp_name(stem) != *name).then(|| {
        format!(
            "it was pulled as `{stem}`, and is not what {at} binds: if it is meant, pull it with `--name {name}`, or move that document beside it"
        )
    })
}
