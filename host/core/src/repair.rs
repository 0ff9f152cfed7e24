//! Repair: how often in a row one agent may have one tool's arguments refused before it is no longer
//! told what is wrong with them.
//!
//! A model that cannot get arguments right goes on for ever, and each attempt costs. A good call ends the
//! loop, and so does time. Deliberately absent: refusing arguments that are right.

use std::collections::BTreeMap;

use crate::error::{CallError, ErrorKind, Limit};
use crate::limits::{REPAIR_LOOPS_MAX, REPAIR_WINDOW_MS};

/// The refused calls in a row of each agent and tool.
#[derive(Debug, Default)]
pub struct RepairLoops {
    loops: BTreeMap<(String, String), Loop>,
}

#[derive(Debug)]
struct Loop {
    refused: u32,
    last_ms: i64,
}

impl RepairLoops {
    /// Takes note of what became of the arguments of one call, and returns what the caller is told:
    /// after `attempts_max` refused ones in a row, that these are too many.
    ///
    /// # Errors
    /// `refused` as it is, or -32011 with `data.stage` `repair`.
    pub fn judge<T>(
        &mut self,
        (agent, tool): (&str, &str),
        outcome: Result<T, CallError>,
        attempts_max: u32,
        now_ms: i64,
    ) -> Result<T, CallError> {
        let key = (agent.to_owned(), tool.to_owned());
        match outcome {
            Err(error) if error.kind == ErrorKind::InvalidArguments => {
                match self.count(key, now_ms) > attempts_max {
                    true => Err(too_many(tool, attempts_max).with_internal(error.message)),
                    false => Err(error),
                }
            }
            Ok(good) => {
                self.loops.remove(&key);
                Ok(good)
            }
            // It says nothing about the arguments.
            other => other,
        }
    }

    fn count(&mut self, key: (String, String), now_ms: i64) -> u32 {
        let window = i64::try_from(REPAIR_WINDOW_MS).unwrap_or(i64::MAX);
        let is_over = |one: &Loop| now_ms.saturating_sub(one.last_ms) >= window;
        if self.loops.len() >= REPAIR_LOOPS_MAX && !self.loops.contains_key(&key) {
            self.loops.retain(|_, one| !is_over(one));
            let oldest = self.loops.iter().min_by_key(|(_, one)| one.last_ms);
            let oldest = oldest.map(|(key, _)| key.clone());
            let is_full = self.loops.len() >= REPAIR_LOOPS_MAX;
            if let Some(key) = oldest.filter(|_| is_full) {
                self.loops.remove(&key);
            }
        }
        let one = self.loops.entry(key).or_insert(Loop { refused: 0, last_ms: now_ms });
        one.refused = if is_over(one) { 1 } else { one.refused.saturating_add(1) };
        one.last_ms = now_ms;
        one.refused
    }
}

fn too_many(tool: &str, attempts_max: u32) -> CallError {
    let text = format!(
        "the arguments of `{tool}` were refused more than {attempts_max} times in a row; stop trying, or read its description again"
    );
    CallError::new(ErrorKind::Overloaded, text)
        .with("stage", "repair")
        .with_limit(Limit::RepairAttempts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(loops: &mut RepairLoops, agent: &str, now_ms: i64) -> CallError {
        let wrong = CallError::new(ErrorKind::InvalidArguments, "`path` is missing");
        loops.judge::<()>((agent, "t"), Err(wrong), 2, now_ms).unwrap_err()
    }

    #[test]
    fn past_the_cap_an_agent_is_no_longer_told_what_is_wrong() {
        let mut loops = RepairLoops::default();
        let told = [1, 2, 3, 4].map(|now| wrong(&mut loops, "a", now).kind);
        use ErrorKind::{InvalidArguments as Told, Overloaded as Capped};
        assert_eq!(told, [Told, Told, Capped, Capped]);
        let capped = wrong(&mut loops, "a", 5);
        assert_eq!((&capped.data["stage"], capped.kind.code()), (&"repair".into(), -32011));
        assert!(!capped.message.contains("path"), "{capped}");
        assert_eq!(wrong(&mut loops, "b", 5).kind, Told, "each agent by itself");
    }

    #[test]
    fn a_good_call_and_time_end_a_loop_and_a_refusal_by_policy_does_not() {
        let mut loops = RepairLoops::default();
        (0..9).for_each(|now| drop(wrong(&mut loops, "a", now)));
        assert_eq!(loops.judge(("a", "t"), Ok(7), 2, 10), Ok(7));
        assert_eq!(wrong(&mut loops, "a", 11).kind, ErrorKind::InvalidArguments);
        (0..9).for_each(|now| drop(wrong(&mut loops, "a", now)));
        let denied = Err::<(), _>(CallError::new(ErrorKind::Policy, "no"));
        assert_eq!(loops.judge(("a", "t"), denied, 2, 9).unwrap_err().kind, ErrorKind::Policy);
        assert_eq!(wrong(&mut loops, "a", 9).kind, ErrorKind::Overloaded);
        let later = 9 + i64::try_from(REPAIR_WINDOW_MS).unwrap();
        assert_eq!(wrong(&mut loops, "a", later).kind, ErrorKind::InvalidArguments);
    }

    #[test]
    fn with_no_attempts_nothing_is_ever_told_and_loops_are_bounded() {
        let mut loops = RepairLoops::default();
        let wrong = || CallError::new(ErrorKind::InvalidArguments, "no");
        let first = loops.judge::<()>(("a", "t"), Err(wrong()), 0, 0).unwrap_err();
        assert_eq!(first.kind, ErrorKind::Overloaded);
        for at in 0..REPAIR_LOOPS_MAX + 10 {
            let now = i64::try_from(at).unwrap();
            drop(loops.judge::<()>((&format!("agent-{at}"), "t"), Err(wrong()), 9, now));
        }
        assert_eq!(loops.loops.len(), REPAIR_LOOPS_MAX);
    }
}
