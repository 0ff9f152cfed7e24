//! `clawhost limits`: every bound, from the one table.

use clawhost_core::error::exit;
use clawhost_core::limits::TABLE;
use serde_json::{Value, json};

use super::args::LimitsArgs;
use super::fail::Fail;
use super::show;

pub(super) fn run(args: &LimitsArgs) -> Result<u8, Fail> {
    if args.json {
        let rows = TABLE.iter().map(|limit| json!({"name": limit.name, "value": limit.value, "reason": limit.reason.trim()}));
        show::json(&Value::from_iter(rows));
        return Ok(exit::OK);
    }
    let mut table = show::table(&["limit", "value", "reason"]);
    for limit in TABLE {
        table.add_row([limit.name, &limit.value.to_string(), limit.reason.trim()]);
    }
    show::line(&table.to_string());
    Ok(exit::OK)
}
