//! A sum over the last minute or hour, kept in sixty pieces.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// The pieces of a window.
const SLOTS: u64 = 60;
/// The length of a piece of the last minute, in milliseconds.
pub(super) const SECOND_MS: u64 = 1_000;
/// The length of a piece of the last hour, in milliseconds.
pub(super) const MINUTE_MS: u64 = 60_000;

/// What was used in the last 60 pieces of `SLOT_MS` each, and the piece under way.
///
/// Never less than what was used in exactly that time: a piece counts until its last millisecond
/// has left the window. It holds at most 61 pieces, however much is used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Window<const SLOT_MS: u64> {
    /// The number of each piece since the epoch and its sum, in order.
    slots: VecDeque<(u64, u64)>,
}

impl<const SLOT_MS: u64> Window<SLOT_MS> {
    /// Returns what was used up to `now_ms`.
    pub(super) fn total(&self, now_ms: u64) -> u64 {
        self.live(now_ms).fold(0, |sum, (_, used)| sum.saturating_add(*used))
    }

    /// Returns the milliseconds until the oldest piece leaves the window; nothing where it is empty.
    pub(super) fn frees_in_ms(&self, now_ms: u64) -> Option<u64> {
        let (oldest, _) = self.live(now_ms).next()?;
        let leaves_ms = oldest.saturating_add(SLOTS + 1).saturating_mul(SLOT_MS);
        Some(leaves_ms.saturating_sub(now_ms))
    }

    /// Takes along what it holds, where the clock was set back by more than the window: it is of this moment
    /// then, or it would count until the clock has caught up.
    pub(super) fn turn(&mut self, now_ms: u64) {
        let now = now_ms / SLOT_MS;
        if self.slots.back().is_some_and(|(last, _)| *last > now.saturating_add(SLOTS)) {
            let total = self.slots.iter().fold(0, |sum, (_, used)| used.saturating_add(sum));
            self.slots = VecDeque::from([(now, total)]);
        }
    }

    /// Adds what is used at `now_ms`, and forgets what has left the window.
    pub(super) fn add(&mut self, now_ms: u64, used: u64) {
        self.turn(now_ms);
        let now = now_ms / SLOT_MS;
        self.slots.retain(|(slot, _)| slot.saturating_add(SLOTS) >= now);
        match self.slots.back_mut() {
            Some((last, sum)) if *last >= now => *sum = sum.saturating_add(used),
            _ => self.slots.push_back((now, used)),
        }
    }

    /// Replaces `before`, added at `at_ms`, by `after`; without effect once that has left.
    pub(super) fn correct(&mut self, at_ms: u64, before: u64, after: u64) {
        let at = at_ms / SLOT_MS;
        if let Some((_, sum)) = self.slots.iter_mut().rev().find(|(slot, _)| *slot == at) {
            *sum = sum.saturating_sub(before).saturating_add(after);
        }
    }

    /// Says whether nothing was used.
    pub(super) fn is_idle(&self, now_ms: u64) -> bool {
        self.live(now_ms).next().is_none()
    }

    fn live(&self, now_ms: u64) -> impl Iterator<Item = &(u64, u64)> {
        let now = now_ms / SLOT_MS;
        self.slots.iter().filter(move |(slot, _)| slot.saturating_add(SLOTS) >= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Minute = Window<SECOND_MS>;

    #[test]
    fn what_is_used_counts_for_a_minute_and_no_more_than_a_second_longer() {
        let mut window = Minute::default();
        window.add(10_999, 1);
        assert_eq!(window.total(70_999), 1);
        assert_eq!(window.frees_in_ms(70_500), Some(500));
        assert_eq!(window.total(71_000), 0);
        assert!(window.is_idle(71_000));
    }

    #[test]
    fn a_window_never_grows_beyond_its_pieces() {
        let mut window = Minute::default();
        for now_ms in (0..1_000_000).step_by(100) {
            window.add(now_ms, 1);
        }
        assert!(window.slots.len() <= 61);
        assert_eq!(window.total(999_900), 610);
    }

    #[test]
    fn a_correction_finds_its_piece_and_nothing_else() {
        let mut window = Minute::default();
        window.add(1_000, 5);
        window.add(2_000, 7);
        window.correct(1_500, 5, 2);
        assert_eq!(window.total(2_000), 9);
        window.correct(99_000, 5, 50);
        assert_eq!(window.total(2_000), 9);
    }

    #[test]
    fn a_clock_that_is_set_back_frees_nothing_and_blocks_nothing_for_longer_than_the_window() {
        let mut window = Minute::default();
        window.add(1_000_000, 5);
        window.add(990_000, 1);
        assert_eq!(window.total(990_000), 6);
        window.add(10_000, 1);
        assert_eq!(window.total(10_000), 7);
        assert_eq!(window.total(71_000), 0);
        // Nor is anything added to a window that is full.
        window.add(1_000_000, 5);
        window.turn(10_000);
        assert_eq!((window.total(10_000), window.total(71_000)), (5, 0));
    }
}
