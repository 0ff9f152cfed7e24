//! Which files have a name: of several that offer the same tool none serves it.
//!
//! What the manifest grants goes by a tool's name, which a component gives itself, and which file came
//! first is another after each start. So no file takes a name from another, nor from one that cannot be
//! used just now, which has what it last offered. What was pulled is called by the operator, and only
//! under that name it is what the manifest means.

use std::collections::{BTreeMap, BTreeSet};

use clawhost_core::catalog::ckp_name;
use clawhost_core::manifest::ToolBinding;

use super::{Binder, CatalogDraft};
use crate::registry::drop_in::{self, DropIn};
use crate::registry::offer::{Offer, Offered};

/// Which names the files have, in the form of the CKP.
#[derive(Debug, Default)]
pub(in crate::registry) struct Claims {
    names: BTreeMap<String, BTreeSet<String>>,
    files: BTreeMap<String, Vec<String>>,
}

impl Claims {
    /// Returns which names they have now. A file that does not say what it offers has what it had.
    pub(in crate::registry) fn renewed<'f>(
        &self,
        files: impl Iterator<Item = (&'f str, Option<&'f Offer>)>,
    ) -> Self {
        let mut now = Self::default();
        for (file, offer) in files {
            let names: BTreeSet<String> = match offer {
                Some(offer) => offer.tools.iter().map(|tool| tool.ckp_name.clone()).collect(),
                None => self.names.get(file).cloned().unwrap_or_default(),
            };
            for name in &names {
                now.files.entry(name.clone()).or_default().push(file.to_owned());
            }
            now.names.insert(file.to_owned(), names);
        }
        now
    }

    /// Says why `file` does not have a name that it offers: another one has it too, or it was pulled and is not
    /// what the manifest binds, which says so in `of_manifest` where no document beside the file does.
    pub(in crate::registry) fn refusal(
        &self,
        file: &str,
        (offer, tool): (&Offer, &Offered),
        of_manifest: Option<&ToolBinding>,
    ) -> Option<String> {
        let files = self.files.get(&tool.ckp_name).into_iter().flatten();
        let others: Vec<String> =
            files.filter(|other| *other != file).map(|other| format!("`{other}`")).collect();
        match others.as_slice() {
            [] => of_manifest
                .filter(|_| offer.is_pulled)
                .and_then(|binding| misnamed(file, offer, binding)),
            [..] => Some(format!(
                "{} {} it too, or had it before it failed: none of these files serves it until all but one are taken away",
                others.join(", "),
                if others.len() == 1 { "has" } else { "have" }
            )),
        }
    }
}

impl Binder {
    /// Binds a file's tool by the document beside it, else by what the manifest says, where the name is
    /// this file's to have.
    pub(super) fn bind_claimed(
        &self,
        draft: &mut CatalogDraft,
        file: &DropIn,
        (offer, tool): (&Offer, &Offered),
        sidecar: Option<&ToolBinding>,
    ) {
        let name = &tool.definition.name;
        let binding = sidecar.or_else(|| self.listed(name));
        let of_manifest = binding.filter(|_| sidecar.is_none());
        let reason = self.claims.refusal(&file.name, (offer, tool), of_manifest);
        let Some(reason) = reason else { return self.bind_signed(draft, offer, tool, binding) };
        draft.offered.extend(binding.map(|binding| binding.name.clone()));
        draft.refuse_tool(&offer.origin, name, &format!("tool `{name}`: {reason}"));
    }
}

/// Says why a file that was pulled is not what the manifest binds, where it is called otherwise. One name is all that
/// a file can have, so of several tools that the manifest binds it is each of them by a document only.
fn misnamed(
    file: &str,
    offer: &Offer,
    ToolBinding { name, at, .. }: &ToolBinding,
) -> Option<String> {
    let stem = drop_in::stem(file).unwrap_or(file);
    let way = match offer.tools.as_slice() {
        [_] => format!("pull it with `--name {name}`, or move that document beside it"),
        _ => "move that document beside it".to_owned(),
    };
    (ckp_name(stem) != *name).then(|| {
        format!("it was pulled as `{stem}`, and is not what {at} binds: if it is meant, {way}")
    })
}
