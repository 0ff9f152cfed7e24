//! What a dropped-in component needs, held against what was accepted of its tools: one that needs more than
//! before waits for the operator, whatever its profile grants.
//!
//! The pins are those of servers' tools, under the name that a document binds to a profile: whatever file offers
//! the tool, it is held against the same.

use std::collections::BTreeSet;

use clawhost_core::{digest, imports};
use serde_json::{Value, json};

use super::bridge::{COMPONENT, Pin, PinState, Pins, Seen, Verdict};
use crate::state::DatabaseError;

/// What stands in the place of a tool's name.
const NEEDS: &str = "imports";

/// Says whether a component that offers `tools` needs more than was accepted of each, and how that is accepted;
/// what it needs at first sight is.
///
/// # Errors
/// The store cannot say.
pub(super) async fn check(
    pins: &Pins,
    tools: impl Iterator<Item = &str>,
    imported: &[String],
) -> Result<Option<String>, String> {
    let needs = imports::needs(imported.iter().map(String::as_str));
    let (mut more, mut waiting) = (BTreeSet::new(), Vec::new());
    for tool in tools {
        let of = format!("{COMPONENT}{tool}");
        if let Some(new) = waits(pins, &of, &needs).await? {
            more.extend(new);
            waiting.push(of);
        }
    }
    if waiting.is_empty() {
        return Ok(None);
    }
    let more = Vec::from_iter(more).join(", ");
    let each = |verb: &str| {
        let commands = waiting.iter().map(|of| format!("`clawhost pins {verb} {of}`"));
        commands.collect::<Vec<_>>().join(", ")
    };
    Ok(Some(format!(
        "it needs {} beside what was accepted of its tools: look at {}, then {}",
        if more.is_empty() { "nothing" } else { &more },
        each("diff"),
        each("accept"),
    )))
}

/// Says whether a component that is served, or `waits`, has to be checked anew by what is kept of each of `tools` now.
/// Nothing is taken on by asking. Where one of another host waits under the same name, this one leaves that in its place.
///
/// # Errors
/// The store cannot say.
pub(super) async fn is_due(
    pins: &Pins,
    tools: impl Iterator<Item = &str>,
    imported: &[String],
    waits: bool,
) -> Result<bool, DatabaseError> {
    let needs = imports::needs(imported.iter().map(String::as_str));
    if needs.is_empty() {
        return Ok(waits);
    }
    let mut has_all = true;
    for tool in tools {
        let kept = pins.list(Some(format!("{COMPONENT}{tool}")), Some(NEEDS.to_owned())).await?;
        let known = kept.first().map(known).unwrap_or_default();
        if needs.iter().all(|need| known.contains(*need)) {
            continue;
        }
        if !waits || kept.first().is_none_or(|pin| pin.state() == PinState::Accepted) {
            return Ok(true);
        }
        has_all = false;
    }
    Ok(waits && has_all)
}

/// Returns what is needed beside what was accepted of one tool, where that waits.
async fn waits<'a>(
    pins: &Pins,
    of: &str,
    needs: &BTreeSet<&'a str>,
) -> Result<Option<Vec<&'a str>>, String> {
    let before = pins.list(Some(of.to_owned()), Some(NEEDS.to_owned())).await;
    let before = before.map_err(|error| error.to_string())?;
    let accepted = before.first().and_then(|pin| pin.accepted.clone());
    let known = before.first().map(known).unwrap_or_default();
    let more: Vec<&'a str> = needs.iter().filter(|need| !known.contains(**need)).copied().collect();
    // What needs less is as good as what was accepted.
    let own = digest::canonical(&json!({ NEEDS: needs }));
    let definition = accepted.filter(|_| more.is_empty()).unwrap_or(own);
    let digest = digest::of_bytes(definition.as_bytes());
    let seen = Seen { tool: NEEDS.to_owned(), definition, digest: digest.clone() };
    let verdict = pins.judge_quietly(of, vec![seen]).await.pop().unwrap_or(Verdict::Unknown);
    if !verdict.waits() || needs.is_empty() {
        return Ok(None);
    }
    if verdict == Verdict::Unknown {
        return Err("the store cannot say whether what it needs was accepted".to_owned());
    }
    pins.note(of, NEEDS, &digest, verdict);
    Ok(Some(more))
}

fn known(pin: &Pin) -> BTreeSet<String> {
    let accepted =
        pin.accepted.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let known = accepted.and_then(|value| value.get(NEEDS)?.as_array().cloned());
    known.into_iter().flatten().filter_map(|need| need.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use clawhost_core::manifest::PinMode;

    use super::super::MIGRATIONS;
    use super::*;
    use crate::state::Database;

    const FILES: &str = "wasi:filesystem/types@0.2.12";
    const WEB: &str = "wasi:http/outgoing-handler@0.2.12";

    fn pins(mode: PinMode) -> Pins {
        Pins::new(Database::in_memory(&[("pins", MIGRATIONS)]).unwrap(), None, mode)
    }

    async fn checked(pins: &Pins, imports: &[&str]) -> Option<String> {
        let imports: Vec<String> = imports.iter().map(|it| (*it).to_owned()).collect();
        check(pins, ["a"].into_iter(), &imports).await.unwrap()
    }

    #[tokio::test]
    async fn of_two_that_wait_neither_writes_over_the_other_until_somebody_decides() {
        let pins = pins(PinMode::Require);
        let due = async |import: &str, waits| {
            is_due(&pins, ["a"].into_iter(), &[import.to_owned()], waits).await.unwrap()
        };
        assert!(checked(&pins, &[FILES]).await.is_some());
        assert!(checked(&pins, &[WEB]).await.is_some());
        assert!(!due(FILES, true).await && !due(WEB, true).await);
        pins.accept(pins.list(None, None).await.unwrap()).await.unwrap();
        assert!(due(WEB, true).await && !due(WEB, false).await);
        // Nothing waits now but this, so that it can be accepted next.
        assert!(due(FILES, true).await);
        assert!(checked(&pins, &[FILES]).await.is_some());
        assert!(!due(FILES, true).await && due(FILES, false).await);
    }

    #[tokio::test]
    async fn two_components_of_which_each_has_one_of_two_tools_accepted_take_no_turns() {
        let pins = pins(PinMode::Require);
        let both = || ["a", "b"].into_iter();
        for (import, of) in [(FILES, "tool:a"), (WEB, "tool:b")] {
            assert!(check(&pins, both(), &[import.to_owned()]).await.unwrap().is_some());
            let pin = pins.list(Some(of.to_owned()), None).await.unwrap();
            assert_eq!(pins.accept(pin).await.unwrap(), 1);
        }
        let due =
            async |import: &str| is_due(&pins, both(), &[import.to_owned()], true).await.unwrap();
        assert!(due(FILES).await && !due(WEB).await);
        assert!(check(&pins.again(), both(), &[FILES.to_owned()]).await.unwrap().is_some());
        assert!(!due(FILES).await && !due(WEB).await);
    }

    #[tokio::test]
    async fn of_a_component_with_several_tools_each_is_accepted_by_itself() {
        let pins = pins(PinMode::FirstUse);
        assert_eq!(checked(&pins, &[FILES]).await, None);
        let both = async || check(&pins, ["a", "b"].into_iter(), &[WEB.to_owned()]).await.unwrap();
        let why = both().await.unwrap();
        assert!(why.contains("pins accept tool:a`") && !why.contains("tool:b"), "{why}");
        let pin = pins.list(Some("tool:a".to_owned()), None).await.unwrap();
        pins.accept(pin).await.unwrap();
        assert_eq!(both().await, None);
    }

    #[tokio::test]
    async fn what_needs_more_waits_until_that_is_accepted_and_what_needs_less_does_not() {
        let pins = pins(PinMode::FirstUse);
        assert_eq!(checked(&pins, &[FILES, "wasi:io/streams@0.2.12"]).await, None);
        for _ in 0..2 {
            let why = checked(&pins, &[FILES, WEB]).await.unwrap();
            assert!(
                why.contains("wasi:http/outgoing-handler") && !why.contains("filesystem"),
                "{why}"
            );
        }
        // Another version of the same, and less, is what was accepted.
        assert_eq!(checked(&pins, &["wasi:filesystem/types@0.2.99"]).await, None);
        assert_eq!(checked(&pins, &[]).await, None);
        checked(&pins, &[FILES, WEB]).await.unwrap();
        let pin = pins.list(Some("tool:a".to_owned()), None).await.unwrap();
        assert_eq!(pin[0].to_json()["component_of"], "a");
        assert_eq!(pins.accept(pin).await.unwrap(), 1);
        assert_eq!(checked(&pins, &[FILES, WEB]).await, None);
    }

    #[tokio::test]
    async fn what_needed_nothing_and_then_something_waits() {
        let pins = pins(PinMode::FirstUse);
        assert_eq!(checked(&pins, &["wasi:io/streams@0.2.12"]).await, None);
        checked(&pins, &[WEB]).await.unwrap();
    }

    #[tokio::test]
    async fn where_each_tool_is_to_be_accepted_so_is_what_a_file_needs() {
        let pins = pins(PinMode::Require);
        assert_eq!(checked(&pins, &["wasi:io/streams@0.2.12"]).await, None);
        checked(&pins, &[FILES]).await.unwrap();
        let pin = pins.list(None, None).await.unwrap();
        pins.accept(pin).await.unwrap();
        assert_eq!(checked(&pins, &[FILES]).await, None);
    }
}
