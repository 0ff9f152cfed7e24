//! An event with its time, and how it reads as JSON.

use clawhost_core::limits::TELEMETRY_VALUE_BYTES_MAX;
use clawhost_core::manifest::TelemetryPlan;
use clawhost_core::redact::Redactor;
use serde_json::{Map, Value, json};

use super::event::Event;
use crate::clock::rfc3339;

/// What stands for arguments and results that are not to leave.
pub(super) const STRIPPED: &str = "[stripped]";

/// An event that passed the plan's filters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Record {
    /// Milliseconds since 1970.
    pub(super) time_ms: i64,
    pub(super) event: Event,
}

impl Record {
    /// Returns what is left of `event` under `plan`: nothing where it is not to be emitted.
    pub(super) fn of(
        plan: &TelemetryPlan,
        redactor: &Redactor,
        time_ms: i64,
        mut event: Event,
    ) -> Option<Self> {
        let wanted = match &mut event {
            Event::Call(call) => {
                strip(&mut call.arguments, plan.strip_arguments);
                strip(&mut call.result, plan.strip_results);
                // With the outermost call go all that are within it: no trace has holes.
                let root = call.root.as_ref().unwrap_or(&call.call);
                plan.events.tool_calls && is_sampled(root, plan.sampling_rate)
            }
            Event::Error { .. } => plan.events.errors,
            Event::Lifecycle { .. } => plan.events.lifecycle,
            Event::Memory { .. } => plan.events.memory_ops,
            Event::Swarm { .. } => plan.events.swarm_ops,
            // It is counted; there is no event for it.
            Event::Usage { .. } => false,
        };
        redact(&mut event, redactor);
        wanted.then_some(Self { time_ms, event })
    }

    pub(super) fn to_json(&self) -> Value {
        let mut body = facts(&self.event);
        body.insert("time".to_owned(), rfc3339(self.time_ms).into());
        body.insert("event".to_owned(), self.event.name().into());
        Value::Object(body)
    }
}

/// Whoever emits has done this; what slips through there shall not leave here.
fn redact(event: &mut Event, redactor: &Redactor) {
    let text = |text: &mut String| *text = redactor.text(text).into_owned();
    match event {
        Event::Call(call) => {
            call.arguments = call.arguments.take().map(|value| redactor.json(value));
            call.result = call.result.take().map(|value| redactor.json(value));
            text(&mut call.tool);
            call.request_id.iter_mut().for_each(text);
        }
        Event::Error { name, .. } => text(name),
        Event::Memory { store, .. } => text(store),
        Event::Swarm { swarm, task, .. } => {
            text(swarm);
            task.iter_mut().for_each(text);
        }
        Event::Lifecycle { .. } | Event::Usage { .. } => {}
    }
}

/// Says the same of one call in every run: what it says does not change when it is looked at.
fn is_sampled(call: &str, rate: f64) -> bool {
    let [a, b, c, d, ..] = *blake3::hash(call.as_bytes()).as_bytes();
    f64::from(u32::from_be_bytes([a, b, c, d])) < rate * (f64::from(u32::MAX) + 1.0)
}

fn strip(value: &mut Option<Value>, stripped: bool) {
    *value = if stripped { Some(STRIPPED.into()) } else { value.take().map(bounded) };
}

/// Returns `value` as an event may have it: one that is too long is replaced by its size.
pub(crate) fn bounded(value: Value) -> Value {
    let bytes = value.to_string().len();
    if bytes > TELEMETRY_VALUE_BYTES_MAX { json!({ "left_out_bytes": bytes }) } else { value }
}

/// Returns what an event says, without its name and time.
pub(super) fn facts(event: &Event) -> Map<String, Value> {
    let Ok(Value::Object(mut facts)) = serde_json::to_value(event) else { return Map::new() };
    facts.retain(|_, fact| !fact.is_null() && *fact != Value::Array(Vec::new()));
    facts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::telemetry::CallEvent;
    use crate::telemetry::tests::plan;

    fn none() -> Redactor {
        Redactor::default()
    }

    fn call(id: &str) -> Event {
        Event::Call(Box::new(CallEvent {
            call: id.to_owned(),
            tool: "read-file".to_owned(),
            outcome: "ok",
            arguments: Some(json!({ "path": "secret" })),
            result: Some(json!("x".repeat(TELEMETRY_VALUE_BYTES_MAX + 1))),
            ..CallEvent::default()
        }))
    }

    #[test]
    fn durations_are_told_in_milliseconds_with_three_digits_however_long() {
        let told = |duration| {
            let call = CallEvent { duration, ..CallEvent::default() };
            facts(&Event::Call(Box::new(call))).remove("duration_ms")
        };
        assert_eq!(told(Duration::from_nanos(1_234_567)), Some(json!(1.235)));
        assert_eq!(told(Duration::from_millis(4_320_000_001)), Some(json!(4_320_000_001.0)));
    }

    #[test]
    fn arguments_and_results_leave_only_where_the_manifest_says_so_and_in_bounds() {
        let stripped = Record::of(&plan(Vec::new()), &none(), 0, call("1")).unwrap().to_json();
        assert_eq!(
            (&stripped["arguments"], &stripped["result"]),
            (&json!(STRIPPED), &json!(STRIPPED))
        );
        let open =
            TelemetryPlan { strip_arguments: false, strip_results: false, ..plan(Vec::new()) };
        let record = Record::of(&open, &none(), 0, call("1")).unwrap().to_json();
        assert_eq!(record["arguments"], json!({ "path": "secret" }));
        assert_eq!(record["result"]["left_out_bytes"], TELEMETRY_VALUE_BYTES_MAX + 3);
        assert_eq!(record["time"], "1970-01-01T00:00:00.000Z");
        // Whoever emits may have bounded them before.
        let long = json!(["x".repeat(TELEMETRY_VALUE_BYTES_MAX)]);
        let bytes = TELEMETRY_VALUE_BYTES_MAX + 4;
        assert_eq!(bounded(bounded(long)), json!({ "left_out_bytes": bytes }));
    }

    #[test]
    fn a_share_of_the_calls_is_sampled_and_always_the_same_ones() {
        let plan = TelemetryPlan { sampling_rate: 0.25, ..plan(Vec::new()) };
        let sampled = |_| -> Vec<bool> {
            (0..1_000)
                .map(|id| Record::of(&plan, &none(), 0, call(&id.to_string())).is_some())
                .collect()
        };
        let first: Vec<bool> = sampled(());
        assert_eq!(first, sampled(()));
        let count = first.iter().filter(|sampled| **sampled).count();
        assert!((200..300).contains(&count), "{count}");
        let all = TelemetryPlan { sampling_rate: 1.0, ..plan.clone() };
        let nothing = TelemetryPlan { sampling_rate: 0.0, ..plan.clone() };
        assert!((0..100).all(|id| Record::of(&all, &none(), 0, call(&id.to_string())).is_some()));
        assert!(
            (0..100).all(|id| Record::of(&nothing, &none(), 0, call(&id.to_string())).is_none())
        );
    }

    #[test]
    fn what_is_switched_off_is_not_emitted() {
        let mut plan = plan(Vec::new());
        plan.events.lifecycle = false;
        let event = Event::Lifecycle { from: "INIT", to: "READY", duration_ms: 1 };
        assert_eq!(Record::of(&plan, &none(), 0, event.clone()), None);
        plan.events.lifecycle = true;
        assert_eq!(Record::of(&plan, &none(), 0, event).unwrap().to_json()["to"], "READY");
    }
}
