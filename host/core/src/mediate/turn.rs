//! One turn of a runner: from its request, over rounds that it never sees, to the answer that it gets.
//!
//! ```text
//! ask ──▶ hear ──▶ Done: no call of ours, or only the runner's
//!  ▲        │
//!  │        └────▶ Run: job, ran, job, ran, …; then close ──▶ Done: a tool that ends the turn
//!  └────────────────────────────────────────────────────────── Ask
//! ```

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use super::choice::free_choice;
use super::continuity::iterations;
use super::dialect::{Answered, Dialect, ModelCall};
use super::envelope::refusal;
use super::offers::{Meant, Offer, Offers};
use super::repeats::{Repeats, signature};
use super::values::{at, push, set};
use super::{TurnBounds, usage};
use crate::json::items;
use crate::limits::PROXY_ANSWER_CALLS_MAX;

/// What becomes of a call that was made before in its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repeat {
    /// The model is told so.
    #[default]
    Reject,
    /// It gets the result again.
    Replay,
}

table! {
    /// Returns its name.
    pub Repeat::name: &'static str {
        Reject: "reject", Replay: "replay",
    }
}

/// How much one turn may take, and what becomes of it then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// Rounds, times and sizes.
    pub bounds: TurnBounds,
    /// Calls that were made before.
    pub repeat: Repeat,
    /// A turn without rounds or time left fails, where otherwise the model is asked for its last words.
    pub strict: bool,
}

/// What follows.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// The model is asked again.
    Ask,
    /// The runner gets this.
    Done(Box<Done>),
    /// [`Turn::job`] has calls to carry out.
    Run,
}

/// What a turn came to.
#[derive(Debug, PartialEq)]
pub struct Done {
    /// The answer, its usage that of all rounds.
    pub answer: Value,
    /// What the runner has not seen.
    pub hidden: Vec<Value>,
}

/// The turn comes to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failed(pub String);

/// A call to carry out.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Our name of the tool.
    pub tool: String,
    /// An object.
    pub arguments: Value,
    /// What [`Offer::is_enveloped`] says of the tool.
    pub is_enveloped: bool,
    /// Its time, in milliseconds.
    pub timeout_ms: u64,
}

/// One turn.
#[derive(Debug)]
pub struct Turn {
    dialect: &'static dyn Dialect,
    request: Value,
    offers: Offers,
    policy: Policy,
    repeats: Repeats,
    round: Round,
    rounds: u32,
    /// Rounds since the user spoke last that were before this turn.
    before: u32,
    /// Where the hidden messages begin, and end.
    hidden: (usize, usize),
    /// The model was told to come to its end.
    is_last: bool,
    /// A call ran that is not known to change nothing.
    has_acted: bool,
    usage: Map<String, Value>,
    trace: Vec<Value>,
    interventions: Vec<&'static str>,
}

/// The calls of one answer.
#[derive(Debug, Default)]
struct Round {
    answer: Value,
    kept: usize,
    waiting: VecDeque<ModelCall>,
    running: Option<(ModelCall, Offer)>,
    results: Vec<Answered>,
    /// Why none of them runs.
    refused: Option<Value>,
    /// One of them was made, now or before in the turn.
    has_called: bool,
    has_ended: bool,
    is_last: bool,
}

impl Turn {
    /// Begins a turn: puts `offers` into the runner's `request`.
    pub fn new(
        dialect: &'static dyn Dialect,
        mut request: Value,
        offers: Offers,
        policy: Policy,
    ) -> Self {
        dialect.inject(&mut request, &offers);
        let begin = items(&request, dialect.messages()).len();
        let before = iterations(dialect, &request);
        Self {
            dialect,
            request,
            offers,
            policy,
            repeats: Repeats::default(),
            round: Round::default(),
            rounds: 0,
            before,
            hidden: (begin, begin),
            is_last: false,
            has_acted: false,
            usage: Map::new(),
            trace: Vec::new(),
            interventions: Vec::new(),
        }
    }

    /// Returns what the model is asked now.
    pub const fn request(&self) -> &Value {
        &self.request
    }

    /// Returns how many rounds there were.
    pub const fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Returns what was called, with which result, in each round; of one that goes on, as far as it has come.
    pub fn trace(&self) -> &[Value] {
        &self.trace
    }

    /// Says whether a call was begun that may have changed something: the turn is not one to make again unasked.
    pub fn has_acted(&self) -> bool {
        let running = self.round.running.as_ref();
        self.has_acted || running.is_some_and(|(_, offer)| !offer.read_only)
    }

    /// Returns what was done about the order of calls and the end of the turn.
    pub fn interventions(&self) -> &[&'static str] {
        &self.interventions
    }

    /// Returns what all answers used together.
    pub const fn usage(&self) -> &Map<String, Value> {
        &self.usage
    }

    /// Takes what the model answered, `spent_ms` after the turn began.
    ///
    /// # Errors
    /// The model does not come to its end, or makes more calls than one answer may.
    pub fn hear(&mut self, mut answer: Value, spent_ms: u64) -> Result<Step, Failed> {
        usage::add(&mut self.usage, at(&answer, "usage"));
        let mut calls = self.dialect.calls(&mut answer, self.rounds + 1);
        calls.iter_mut().for_each(|call| self.offers.prune(call));
        if let Some(last) = calls.last_mut().filter(|_| self.dialect.is_cut(&answer)) {
            last.arguments = Err(CUT.to_owned());
        }
        if self.is_last && !calls.is_empty() {
            return Err(Failed("the model calls tools when there are none any more".to_owned()));
        }
        if calls.len() > PROXY_ANSWER_CALLS_MAX {
            let (made, most) = (calls.len(), PROXY_ANSWER_CALLS_MAX);
            return Err(Failed(format!(
                "the model makes {made} calls at once, {most} are allowed"
            )));
        }
        let native: Vec<bool> =
            calls.iter().map(|call| self.offers.meant(&call.name) == Meant::Native).collect();
        let managed = native.iter().rposition(|native| !native).map_or(0, |last| last + 1);
        let is_stopped = !calls.is_empty() && self.iterations_are_spent();
        if managed == 0 && !is_stopped {
            return Ok(Step::Done(Box::new(self.done(answer))));
        }
        let is_mixed = native.iter().take(managed).any(|native| *native);
        let kept = if is_mixed || is_stopped { calls.len() } else { managed };
        if kept < calls.len() {
            self.interventions.push("managed_prefix_native_suffix_serialized");
        }
        let spent = self.budget(spent_ms)?;
        let is_last = spent.is_some();
        let refused = spent.or_else(|| self.out_of_order(&calls, is_mixed));
        let waiting = calls.into_iter().take(kept).collect();
        self.trace.push(json!({
            "round": self.rounds + 1,
            "tool_calls": [],
            "round_usage": usage::traced(at(&answer, "usage")),
        }));
        self.round = Round { answer, kept, waiting, refused, is_last, ..Round::default() };
        Ok(Step::Run)
    }

    /// Returns the next call to carry out, `spent_ms` after the turn began; its result belongs to [`Turn::ran`].
    ///
    /// # Errors
    /// There is no time left for it, and the turn is to fail then.
    pub fn job(&mut self, spent_ms: u64) -> Result<Option<Job>, Failed> {
        while let Some(call) = self.round.waiting.pop_front() {
            if self.round.refused.is_none() {
                self.round.refused = self.budget(spent_ms)?;
                self.round.is_last = self.round.refused.is_some();
            }
            match self.judge(&call) {
                Ok((offer, arguments)) => {
                    let (tool, is_enveloped) = (offer.tool.clone(), offer.is_enveloped);
                    self.round.running = Some((call, offer));
                    let bounds = self.policy.bounds;
                    let left_ms = bounds.soft_timeout_ms().saturating_sub(spent_ms);
                    let timeout_ms = bounds.timeout_per_tool_ms.min(left_ms);
                    return Ok(Some(Job { tool, arguments, is_enveloped, timeout_ms }));
                }
                Err((result, more)) => self.note(&call, None, result, &more),
            }
        }
        Ok(None)
    }

    /// Takes the result of the call that [`Turn::job`] returned last, and how long it took.
    pub fn ran(&mut self, mut result: Value, latency_ms: u64) {
        let Some((call, offer)) = self.round.running.take() else {
            return;
        };
        self.has_acted |= !offer.read_only;
        self.round.has_called = true;
        offer.rename_in(&mut result);
        let arguments = call.arguments.clone().unwrap_or_default();
        let signature = signature(&offer, &arguments);
        self.repeats.note(&signature, &offer, self.rounds + 1, &result);
        self.round.has_ended |= offer.is_terminal && at(&result, "ok") == true;
        self.note(&call, Some(&offer), result, &json!({ "latency_ms": latency_ms }));
    }

    /// Ends the round, when there are no more jobs.
    pub fn close(&mut self) -> Step {
        let round = std::mem::take(&mut self.round);
        self.rounds += 1;
        self.dialect.append(&mut self.request, &round.answer, round.kept, &round.results);
        self.hidden.1 = items(&self.request, self.dialect.messages()).len();
        if round.has_called {
            free_choice(&mut self.request, &self.offers);
        }
        if round.has_ended {
            let mut answer = round.answer;
            self.dialect.end(&mut answer);
            return Step::Done(Box::new(self.done(answer)));
        }
        if round.is_last || self.repeats.are_too_many() {
            self.interventions.push("managed_tools_finalized");
            self.is_last = true;
            self.dialect.without_tools(&mut self.request, LAST_WORDS);
        }
        Step::Ask
    }

    /// Says whether the model has called as often as it may before the user speaks again.
    const fn iterations_are_spent(&self) -> bool {
        self.before.saturating_add(self.rounds) >= self.policy.bounds.max_tool_iterations
    }

    /// Returns the refusal of calls for which there are no rounds, or no time, left.
    fn budget(&self, spent_ms: u64) -> Result<Option<Value>, Failed> {
        let mut details = json!({
            "max_rounds": self.policy.bounds.max_rounds,
            "finalize_now": true,
            "tools_disabled": true,
        });
        let why = if self.iterations_are_spent() {
            let most = self.policy.bounds.max_tool_iterations;
            set(&mut details, "max_tool_iterations", most.into());
            "there are no rounds of tool calls left until the user speaks again"
        } else if self.rounds >= self.policy.bounds.max_rounds {
            "this turn has no rounds of tool calls left"
        } else if spent_ms >= self.policy.bounds.soft_timeout_ms() {
            set(&mut details, "soft_deadline", true.into());
            set(&mut details, "data_may_be_stale", true.into());
            "this turn has no time left"
        } else {
            return Ok(None);
        };
        if self.policy.strict {
            return Err(Failed(why.to_owned()));
        }
        Ok(Some(refusal("tool_budget_exhausted", Some(429), why, Some(details))))
    }

    /// Returns the refusal of calls of which one of the runner's comes first, or one that ends the turn is
    /// not the last.
    fn out_of_order(&mut self, calls: &[ModelCall], is_mixed: bool) -> Option<Value> {
        if is_mixed {
            self.interventions.push("mixed_tool_order_internal_retry");
            let message = "call the tools of services first, and your own in another answer";
            return Some(refusal("mixed_tool_order", Some(409), message, None));
        }
        let before = calls.iter().take(calls.len().saturating_sub(1));
        let mut ending = before.filter_map(|call| self.offers.find(&call.name));
        let ending = ending.find(|offer| offer.is_terminal)?;
        let message = format!("`{}` ends the turn: call it last", ending.name);
        Some(refusal("terminal_on_success_order", Some(409), &message, None))
    }

    /// Says what is to be carried out, or what the model is told instead, and what the trace says of it.
    fn judge(&mut self, call: &ModelCall) -> Result<(Offer, Value), (Value, Value)> {
        let told = |result: Value| (result, json!({}));
        if let Some(refused) = &self.round.refused {
            return Err(told(refused.clone()));
        }
        if self.repeats.are_used_up() {
            let message = "this turn has made too many calls again";
            return Err(told(refusal("tool_budget_exhausted", Some(429), message, None)));
        }
        let Some(offer) = self.offers.find(&call.name) else {
            let message = "no tool is called that";
            let details = json!({ "tools": self.offers.near(&call.name) });
            return Err(told(refusal("unsupported_tool", None, message, Some(details))));
        };
        let arguments = call.arguments.clone();
        let arguments =
            arguments.map_err(|why| told(refusal("invalid_arguments", None, &why, None)))?;
        let signature = signature(offer, &arguments);
        match self.repeats.find(&offer.name, &signature, self.policy.repeat) {
            Some(found) => {
                self.round.has_called = true;
                // What it came to counts again.
                self.round.has_ended |= offer.is_terminal && at(&found.result, "ok") == true;
                Err((found.result, found.trace))
            }
            None => Ok((offer.clone(), arguments)),
        }
    }

    fn note(&mut self, call: &ModelCall, offer: Option<&Offer>, result: Value, more: &Value) {
        let offer = offer.or_else(|| self.offers.find(&call.name));
        let is_ok = at(&result, "ok") == true;
        let mut trace = json!({
            "name": offer.map_or(call.name.as_str(), |offer| offer.tool.as_str()),
            "service": offer.map(|offer| offer.service.as_str()),
            "read_only": offer.is_some_and(|offer| offer.read_only),
            "arguments": call.arguments.as_ref().ok(),
            "result": result,
            "status": if is_ok { "ok" } else { "error" },
            "status_code": at(&result, "status_code"),
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            set(&mut trace, key, value.clone());
        }
        if let Some(round) = self.trace.last_mut() {
            push(round, "tool_calls", trace);
        }
        self.round.results.push((call.id.clone(), result));
    }

    fn done(&self, mut answer: Value) -> Done {
        if self.rounds > 0 && !self.usage.is_empty() {
            set(&mut answer, "usage", self.usage.clone().into());
        }
        let messages = items(&self.request, self.dialect.messages());
        let hidden = messages.get(self.hidden.0..self.hidden.1).unwrap_or_default().to_vec();
        Done { answer, hidden }
    }
}

const CUT: &str = "the answer was cut in this call: make it again, in a shorter answer";
const LAST_WORDS: &str = "No more tools can be called in this turn. Answer now with what you have, and say \
what is missing.";
