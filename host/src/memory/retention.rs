//! What a store no longer keeps: what is too old, and what is more than it has room for.

use clawhost_core::manifest::StorePlan;
use rusqlite::Transaction;

use super::rows;

/// Returns the time before which an entry is over, and is shown to nobody.
pub(super) fn since_ms(plan: &StorePlan, now_ms: i64) -> i64 {
    plan.max_age_ms.map_or(i64::MIN, |age| now_ms.saturating_sub(age))
}

/// Drops what is over, and of too many entries the oldest.
pub(super) fn apply(
    change: &Transaction<'_>,
    plan: &StorePlan,
    part: i64,
    now_ms: i64,
) -> rusqlite::Result<()> {
    rows::drop_before(change, part, since_ms(plan, now_ms))?;
    plan.max_entries.map_or(Ok(()), |most| rows::keep_newest(change, part, most))
}

/// Does so, and leaves as many entries as the store's compaction says.
pub(super) fn compact(
    change: &Transaction<'_>,
    plan: &StorePlan,
    part: i64,
    now_ms: i64,
) -> rusqlite::Result<()> {
    apply(change, plan, part, now_ms)?;
    plan.compacts_to.map_or(Ok(()), |most| rows::keep_newest(change, part, most))
}
