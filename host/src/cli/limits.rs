//! `clawhost limits`: every bound, from the one table.

use clawhost_core::limits::{Limit, TABLE};
use serde_json::json;

use super::args::LimitsArgs;
use super::fail::Fail;
use super::show;

pub(super) fn run(args: &LimitsArgs) -> Result<u8, Fail> {
    let row = |limit: &Limit| {
        [limit.name.to_owned(), limit.value.to_string(), limit.reason.trim().to_owned()]
    };
    let value = |limit: &Limit| json!({"name": limit.name, "value": limit.value, "reason": limit.reason.trim()});
    show::done(
        args.json,
        || TABLE.iter().map(value).collect(),
        || show::rows(&["limit", "value", "reason"], TABLE.iter().map(row), ""),
    )
}
