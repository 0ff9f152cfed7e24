//! A spec that is written into the Claw itself.

use super::{Found, Resolved, Slot};
use crate::manifest::kinds::INLINE;
use crate::manifest::load::Loader;
use crate::manifest::node::{Entry, Node, Place, Value};
use crate::manifest::primitive::{Document, Metadata, read_inline_metadata};
use crate::manifest::problem::DocumentError;
use crate::manifest::shape::{self, shown, wrong_name};
use crate::uri::Kind;

impl Loader<'_> {
    pub(super) fn inline(&mut self, slot: Slot<'_>) -> Found {
        let Slot { claw, kind, item, .. } = slot;
        let before = self.problems.count();
        if let Some(problem) = misplaced_keys(slot) {
            return Err(problem);
        }
        let fits = shape::check(&mut self.problems, item, &INLINE, &slot.path());
        let Some(inline) = item.get(&["inline"]).filter(|_| fits) else { return Ok(None) };
        let metadata = read_inline_metadata(item, &mut self.problems);
        let (spec, given) = without_name(inline);
        let given = given.filter(|given| self.may_be_named(slot, given));
        let (name, at) = self.inline_name(slot, given, &metadata);
        let mut of = Document {
            nameless: given.is_none() && metadata.name.is_none() && kind != Kind::Identity,
            version: metadata.version.or_else(|| claw.version.clone()),
            category: metadata.category,
            path: format!("{}.inline", slot.path()),
            sound: self.problems.none_since(before),
            ..slot.document((name, at), spec)
        };
        of.check(&mut self.problems);
        Ok(Some(Resolved::Document(Box::new(of))))
    }

    /// Only what stands in a list has its name among the keys of its spec.
    fn may_be_named(&mut self, slot: Slot<'_>, given: &Entry) -> bool {
        if !slot.many {
            let reason = format!("unknown key `name` in `{}.inline`", slot.path());
            let name = shown(given.node.as_text().unwrap_or("<name>"));
            let help = format!("write `metadata: {{ name: {name} }}` beside `inline:`");
            self.problems.invalid(&given.at, reason, help);
        }
        slot.many
    }

    /// The name inside `inline` wins, then the one of `metadata`, then a generated one.
    fn inline_name(
        &mut self,
        slot: Slot<'_>,
        given: Option<&Entry>,
        metadata: &Metadata,
    ) -> (String, Place) {
        let Slot { claw, kind, index, item, .. } = slot;
        if let Some(Entry { node, .. }) = given {
            let name = node.as_text().unwrap_or_default().to_owned();
            if let Some((reason, help)) = wrong_name(&name) {
                self.problems.invalid(&node.at, reason, help);
            }
            return (name, node.at.clone());
        }
        match &metadata.name {
            Some((name, at)) => (name.clone(), at.clone()),
            None if kind == Kind::Identity => (claw.name.clone(), item.at.clone()),
            None => (format!("{}-{index}", kind.segment()), item.at.clone()),
        }
    }
}

/// Says what is wrong where the keys of an inline spec are not indented.
fn misplaced_keys(slot: Slot<'_>) -> Option<Box<DocumentError>> {
    let inline = slot.item.entry("inline")?;
    let entries = slot.item.entries().iter();
    let beside = entries.filter(|entry| !matches!(entry.key.as_str(), "inline" | "metadata"));
    let keys: Vec<String> = beside.map(|entry| format!("`{}`", shown(&entry.key))).collect();
    let is_empty = matches!(inline.node.value, Value::Null) && !keys.is_empty();
    let reason = format!("`{}.inline` is empty, and keys stand beside it", slot.path());
    let keys = keys.join(", ");
    let help = format!("indent {keys} further than `inline:`, so that it holds them");
    is_empty.then(|| slot.wrong(reason, help))
}

/// Takes the `name` of an inline entry out of its spec.
fn without_name(inline: &Node) -> (Node, Option<&Entry>) {
    let rest = inline.entries().iter().filter(|entry| entry.key != "name").cloned().collect();
    (Node { at: inline.at.clone(), value: Value::Map(rest) }, inline.entry("name"))
}
