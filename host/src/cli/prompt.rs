//! Questions at a terminal: asked there, or announced with the command that answers them.
//!
//! Deliberately absent: deciding without a person. Whatever is no clear yes is a no.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use clawhost_core::limits::{APPROVAL_LISTED_BYTES_MAX, APPROVAL_SHOWN_BYTES_MAX};
use clawhost_core::visible;

use super::question;
use crate::approvals::{Answer, Approvals, Approver, Pending};
use crate::clock::now_ms;

/// Says whether a person sits at both ends: reads what is asked, and can type.
pub(super) fn is_attended() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks something that is no call; whatever is no clear yes is a no.
pub(super) async fn says_yes(question: &str) -> bool {
    eprintln!("{question} [y/N] ");
    forget_typed();
    matches!(answer(&typed().await), Answer::Approve { .. })
}

/// Asks about each question that waits, one after the other, for as long as it is polled.
pub(super) async fn answer_all(approvals: &Approvals) {
    let _reachable = approvals.reach().open();
    let mut changes = approvals.changes();
    loop {
        if let Some(pending) = approvals.pending().first() {
            eprint!("{}\nlet it run? [y/N] \n", question(pending, APPROVAL_SHOWN_BYTES_MAX));
            forget_typed();
            let answer = answer(&typed().await);
            approvals.answer(&pending.id, None, answer, &Approver::Terminal).await;
        } else if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Says on standard error that a call waits, once for each, and how to answer.
pub(super) async fn announce_all(approvals: Approvals, state: PathBuf) {
    let state = visible::line(&state.display().to_string());
    let mut changes = approvals.changes();
    let mut announced = BTreeSet::new();
    loop {
        let waiting = approvals.pending();
        for pending in &waiting {
            if announced.insert(pending.id.clone()) {
                eprint!(
                    "{}\n  clawhost approvals approve {id} --state {state}   (or: deny, show)\n",
                    question(pending, APPROVAL_LISTED_BYTES_MAX),
                    id = pending.id,
                );
            }
        }
        announced.retain(|id| waiting.iter().any(|pending| pending.id == *id));
        if changes.changed().await.is_err() {
            return;
        }
    }
}

fn question(pending: &Pending, bytes_max: usize) -> String {
    question::waiting(&pending.to_json(&pending.shown(bytes_max)), now_ms())
}

/// Drops what was typed before the question: it answers something else.
fn forget_typed() {
    // A terminal that cannot drop it is read as it is.
    let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
}

/// Returns the line that the person types; nothing where the input has ended.
async fn typed() -> String {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        // An input that cannot be read says nothing, and nothing is a no.
        let _ = std::io::stdin().read_line(&mut line);
        line
    });
    read.await.unwrap_or_default()
}

fn answer(line: &str) -> Answer {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Answer::Approve { lease: None },
        _ => Answer::Deny { reason: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        for line in ["y\n", "Y\n", " yes \n"] {
            assert!(matches!(answer(line), Answer::Approve { lease: None }), "{line:?}");
        }
        for line in ["", "\n", "n\n", "ye\n", "yes please\n", "\u{1b}y\n"] {
            assert!(matches!(answer(line), Answer::Deny { .. }), "{line:?}");
        }
    }
}
