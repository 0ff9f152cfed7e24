//! What a program may ask of the system: the date and the time, in UTC. Everything else is
//! refused.

use chrono::{DateTime, Datelike, FixedOffset, Timelike};
use claw_script::wall;
use monty_types::{
    ExcType, ExtFunctionResult, MontyDate, MontyDateTime, MontyException, MontyObject,
    MontyTimeZone, OsFunctionCall,
};

/// Answers one call of the system.
pub(crate) fn answer(call: &OsFunctionCall) -> ExtFunctionResult {
    let answer = match call {
        OsFunctionCall::DateToday => now(None).map(today),
        OsFunctionCall::DateTimeNow(zone) => {
            now(zone.as_ref()).map(|now| moment(now, zone.clone()))
        }
        _ => None,
    };
    answer.map_or_else(|| refusal(call).into(), ExtFunctionResult::Return)
}

fn refusal(call: &OsFunctionCall) -> MontyException {
    let name: &'static str = call.into();
    let why = format!("{name}: there are no files and no environment in this sandbox");
    MontyException::new(ExcType::PermissionError, Some(why))
}

fn now(zone: Option<&MontyTimeZone>) -> Option<DateTime<FixedOffset>> {
    let offset = FixedOffset::east_opt(zone.map_or(0, |zone| zone.offset_seconds))?;
    let now = wall();
    let now = DateTime::from_timestamp(i64::try_from(now.as_secs()).ok()?, now.subsec_nanos())?;
    Some(now.with_timezone(&offset))
}

fn today(now: DateTime<FixedOffset>) -> MontyObject {
    let (month, day) = (small(now.month()), small(now.day()));
    MontyObject::Date(MontyDate { year: now.year(), month, day })
}

fn moment(now: DateTime<FixedOffset>, zone: Option<MontyTimeZone>) -> MontyObject {
    MontyObject::DateTime(MontyDateTime {
        year: now.year(),
        month: small(now.month()),
        day: small(now.day()),
        hour: small(now.hour()),
        minute: small(now.minute()),
        second: small(now.second()),
        microsecond: now.nanosecond() / 1_000,
        offset_seconds: zone.as_ref().map(|zone| zone.offset_seconds),
        timezone_name: zone.and_then(|zone| zone.name),
    })
}

/// A part of a date or a time, none of which is above 60.
fn small(part: u32) -> u8 {
    u8::try_from(part).unwrap_or(u8::MAX)
}
