//! Every text that a reader may see in a text that is escaped.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::layers::{Layer, MARKS};
use crate::limits::REDACT_ROUNDS_MAX;

/// Reads `text` as it is, and in every way that undoes up to [`REDACT_ROUNDS_MAX`] layers of
/// escapes. Where more of it will `follow`, an escape at its end that may go on is left out.
pub(crate) fn read(text: &[u8], follow: bool, mut read: impl FnMut(&Layer<'_>)) {
    let mut reading = Reading { follow, seen: BTreeMap::new(), read: &mut read };
    reading.layer(&Layer::whole(text), REDACT_ROUNDS_MAX);
}

struct Reading<'r> {
    follow: bool,
    /// Digests of the texts that were read, and how many rounds each had left: two kinds of
    /// escape that do not meet are undone in either order with the same end.
    seen: BTreeMap<[u8; 32], usize>,
    read: &'r mut dyn FnMut(&Layer<'_>),
}

impl Reading<'_> {
    /// Reads `layer`, and as many `rounds` of those below it.
    fn layer(&mut self, layer: &Layer<'_>, rounds: usize) {
        (self.read)(layer);
        if rounds == 0 {
            return;
        }
        for marks in kinds(layer.bytes()) {
            let Some(mut below) = layer.peel(marks) else {
                continue;
            };
            if self.follow {
                below.leave_open();
            }
            if self.is_new(&below, rounds) {
                self.layer(&below, rounds - 1);
            }
        }
    }

    /// Returns whether `layer` was not read before with as many `rounds` left.
    fn is_new(&mut self, layer: &Layer<'_>, rounds: usize) -> bool {
        let left = self.seen.entry(Sha256::digest(layer.bytes()).into()).or_default();
        let is_new = *left < rounds;
        *left = rounds.max(*left);
        is_new
    }
}

/// Returns the marks that one reader of `bytes` may undo: those of one kind, as the escapes of
/// another are plain text to it, or all.
fn kinds(bytes: &[u8]) -> Vec<&'static [u8]> {
    let one = |marks: &&[u8]| marks.iter().any(|mark| bytes.contains(mark));
    let mut kinds: Vec<&[u8]> = MARKS.chunks(1).filter(one).collect();
    if kinds.len() > 1 {
        kinds.push(MARKS);
    }
    kinds
}
