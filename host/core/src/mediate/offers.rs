//! The tools that a request gets beside its runner's own, by the names that the model sees.

use std::cmp::Reverse;

use serde_json::Value;

use super::dialect::ModelCall;
use crate::json::items;
use crate::limits::PROXY_NEAREST_MAX;
use crate::manifest::nearest;
use crate::names::Names;

/// A tool that the model may call and the host carries out.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// Our name of it: `service.tool`, or the MCP name.
    pub tool: String,
    /// What the model sees; [`Offers::new`] decides.
    pub name: String,
    /// What the host calls it elsewhere.
    pub known_as: Vec<String>,
    /// For the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: Value,
    /// Whose tool it is; empty for the host's own.
    pub service: String,
    /// It changes nothing, so that what was read before stays true.
    pub read_only: bool,
    /// Its success ends the turn.
    pub is_terminal: bool,
    /// The host asks a service for it, and its answers are envelopes already.
    pub is_enveloped: bool,
}

impl Offer {
    /// Has the error in a result name the tool as the model knows it: it was shown no other name.
    pub(super) fn rename_in(&self, result: &mut Value) {
        for own in self.known_as.iter().chain([&self.tool]) {
            if let Some(Value::String(message)) = result.pointer_mut("/error/message") {
                *message = message.replace(&format!("`{own}`"), &format!("`{}`", self.name));
            }
            let tool = result.pointer_mut("/error/details/tool");
            if let Some(tool) = tool.filter(|tool| **tool == *own) {
                *tool = self.name.as_str().into();
            }
        }
    }
}

/// What a name in an answer means.
#[derive(Debug, PartialEq)]
pub(super) enum Meant<'a> {
    /// A tool of ours.
    Ours(&'a Offer),
    /// One of the runner's, or one that the runner may know.
    Native,
    /// None, and it looks like one of ours.
    Nobody,
}

/// The offers of one request.
#[derive(Debug, Clone, Default)]
pub struct Offers {
    all: Vec<Offer>,
    names: Names,
    declared: Vec<String>,
    prunes: bool,
}

impl Offers {
    /// Returns `all` with names beside those that the runner `declared`. A tool that cannot have a name of
    /// its own is left out.
    pub fn new(mut all: Vec<Offer>, declared: Vec<String>) -> Self {
        let names = loop {
            let taken = declared.iter().map(String::as_str);
            match Names::new(all.iter().map(|offer| offer.tool.as_str()), taken) {
                Ok(names) => break names,
                Err(collision) => all.retain(|offer| offer.tool != collision.canonical),
            }
        };
        for offer in &mut all {
            names.presented(&offer.tool).unwrap_or_default().clone_into(&mut offer.name);
        }
        Self { all, names, declared, prunes: false }
    }

    /// Has the numbers taken out of calls that need not be there and are the least their schema allows:
    /// models that fill in every argument mean nothing by them.
    #[must_use]
    pub fn pruning(self, prunes: bool) -> Self {
        Self { prunes, ..self }
    }

    /// Returns the offers in the order they were made.
    pub fn iter(&self) -> impl Iterator<Item = &Offer> {
        self.all.iter()
    }

    /// Says whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Says whether the runner has no tools of its own.
    pub(super) fn are_all(&self) -> bool {
        self.declared.is_empty()
    }

    /// Returns the tool of ours that `name` means.
    pub fn find(&self, name: &str) -> Option<&Offer> {
        let tool = self.names.canonical(name)?;
        self.all.iter().find(|offer| offer.tool == tool)
    }

    /// Returns the names that begin and end most like `name`, the nearest first.
    pub(super) fn near(&self, name: &str) -> Vec<&str> {
        let mut names: Vec<&str> = self.all.iter().map(|offer| offer.name.as_str()).collect();
        let begins = |own: &str| own.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        let ends = |own: &str| {
            own.bytes().rev().zip(name.bytes().rev()).take_while(|(a, b)| a == b).count()
        };
        names.sort_by_key(|own| Reverse(begins(own) + ends(own)));
        names.truncate(PROXY_NEAREST_MAX);
        names
    }

    /// Takes out of a call what [`Offers::pruning`] says, where it says so.
    pub(super) fn prune(&self, call: &mut ModelCall) {
        let offer = self.find(&call.name).filter(|_| self.prunes);
        let (Some(offer), Ok(Value::Object(given))) = (offer, &mut call.arguments) else { return };
        let needed = items(&offer.schema, "required");
        given.retain(|name, value| {
            let least =
                offer.schema.get("properties").and_then(|all| all.get(name)?.get("minimum"));
            !least.is_some_and(|least| is_equal(least, value))
                || needed.iter().any(|one| one == name.as_str())
        });
    }

    /// Says what `name` means. What the runner did not declare and looks like ours is nobody's: it would
    /// fail there, and the model is told better here.
    pub(super) fn meant(&self, name: &str) -> Meant<'_> {
        if let Some(offer) = self.find(name) {
            return Meant::Ours(offer);
        }
        if self.declared.iter().any(|declared| declared == name) {
            return Meant::Native;
        }
        let of_service = |offer: &Offer| {
            let rest = name.strip_prefix(&offer.service).unwrap_or_default();
            // Models leave the service's name out.
            let bare = offer.tool.strip_prefix(&offer.service).unwrap_or_default();
            let is_bare = bare.trim_start_matches(['.', '_']) == name;
            !offer.service.is_empty() && (rest.starts_with(['.', '_']) || is_bare)
        };
        let near = nearest(name, self.all.iter().map(|offer| offer.name.as_str())).is_some();
        if near || self.all.iter().any(of_service) { Meant::Nobody } else { Meant::Native }
    }
}

/// Says whether two numbers are one, also where they are written as of two kinds.
fn is_equal(one: &Value, other: &Value) -> bool {
    /// 2^53: up to here a float tells every whole number from the next.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let equal = one.as_f64().filter(|number| Some(*number) == other.as_f64());
    equal.is_some_and(|number| number.abs() < EXACT_MAX || one == other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_equal_whatever_their_kind_and_however_large() {
        for (one, other, equal) in [
            (json!(1), json!(1.0), true),
            (json!(9_007_199_254_740_992_u64), json!(9_007_199_254_740_992_u64), true),
            (json!(9_007_199_254_740_992_u64), json!(9_007_199_254_740_993_u64), false),
            (json!(0), json!(1), false),
            (json!(0), json!("0"), false),
            (json!(null), json!(null), false),
        ] {
            assert_eq!(is_equal(&one, &other), equal, "{one} {other}");
        }
    }
}
