//! What a dropped-in component needs, held against what was accepted of its file: one that needs more than
//! before waits for the operator, whatever its profile grants.
//!
//! The pins are those of servers' tools, under the file's name.

use std::collections::BTreeSet;

use clawhost_core::{digest, imports};
use serde_json::{Value, json};

use super::bridge::{Pin, Pins, Seen, Verdict};

/// What stands in the place of a tool's name.
const NEEDS: &str = "imports";

/// Checks that `file` needs no more than was accepted; what it needs at first sight is.
///
/// # Errors
/// It does, and how it is accepted; or the store cannot say.
pub(super) async fn check(pins: &Pins, file: &str, imported: &[String]) -> Result<(), String> {
    let needs = imports::needs(imported.iter().map(String::as_str));
    let before = pins.list(Some(file.to_owned()), Some(NEEDS.to_owned())).await;
    let before = before.map_err(|error| error.to_string())?;
    let accepted = before.first().and_then(|pin| pin.accepted.clone());
    let known = before.first().map(known).unwrap_or_default();
    let more: Vec<&str> = needs.iter().filter(|need| !known.contains(**need)).copied().collect();
    // What needs less is as good as what was accepted.
    let own = digest::canonical(&json!({ NEEDS: needs }));
    let definition = accepted.filter(|_| more.is_empty()).unwrap_or(own);
    let digest = digest::of_bytes(definition.as_bytes());
    let seen = Seen { tool: NEEDS.to_owned(), definition, digest: digest.clone() };
    let verdict = pins.judge_quietly(file, vec![seen]).await.pop().unwrap_or(Verdict::Unknown);
    if !verdict.waits() || needs.is_empty() {
        return Ok(());
    }
    pins.note(file, NEEDS, &digest, verdict);
    Err(format!(
        "it needs {} beside what was accepted of `{file}`: look at `clawhost pins diff {file}`, then `clawhost pins accept {file}`",
        if more.is_empty() { "nothing".to_owned() } else { more.join(", ") },
    ))
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

    async fn checked(pins: &Pins, imports: &[&str]) -> Result<(), String> {
        let imports: Vec<String> = imports.iter().map(|it| (*it).to_owned()).collect();
        check(pins, "a.wasm", &imports).await
    }

    #[tokio::test]
    async fn what_needs_more_waits_until_that_is_accepted_and_what_needs_less_does_not() {
        let pins = pins(PinMode::FirstUse);
        assert_eq!(checked(&pins, &[FILES, "wasi:io/streams@0.2.12"]).await, Ok(()));
        for _ in 0..2 {
            let why = checked(&pins, &[FILES, WEB]).await.unwrap_err();
            assert!(
                why.contains("wasi:http/outgoing-handler") && !why.contains("filesystem"),
                "{why}"
            );
        }
        // Another version of the same, and less, is what was accepted.
        assert_eq!(checked(&pins, &["wasi:filesystem/types@0.2.99"]).await, Ok(()));
        assert_eq!(checked(&pins, &[]).await, Ok(()));
        checked(&pins, &[FILES, WEB]).await.unwrap_err();
        let pin = pins.list(Some("a.wasm".to_owned()), None).await.unwrap();
        assert_eq!(pins.accept(pin).await.unwrap(), 1);
        assert_eq!(checked(&pins, &[FILES, WEB]).await, Ok(()));
    }

    #[tokio::test]
    async fn what_needed_nothing_and_then_something_waits() {
        let pins = pins(PinMode::FirstUse);
        assert_eq!(checked(&pins, &["wasi:io/streams@0.2.12"]).await, Ok(()));
        checked(&pins, &[WEB]).await.unwrap_err();
    }

    #[tokio::test]
    async fn where_each_tool_is_to_be_accepted_so_is_what_a_file_needs() {
        let pins = pins(PinMode::Require);
        assert_eq!(checked(&pins, &["wasi:io/streams@0.2.12"]).await, Ok(()));
        checked(&pins, &[FILES]).await.unwrap_err();
        let pin = pins.list(None, None).await.unwrap();
        pins.accept(pin).await.unwrap();
        assert_eq!(checked(&pins, &[FILES]).await, Ok(()));
    }
}
