//! The ledger against a plain list of everything that was ever spent.

use proptest::prelude::*;
use serde_json::Value;

use super::{Account, Ask, Ledger, Prices, ProviderLimits, Reservation, Used};
use crate::limits::{COMPLETION_TOKENS_MAX, PROMPT_TOKENS_MAX};
use crate::policy::Rates;

const DAY_MS: u64 = 86_400_000;
const PRICES: Prices = Prices { input_nano_usd: 1_000, output_nano_usd: 10_000 };

fn ask(limits: &ProviderLimits, prompt_tokens: u64, completion_tokens: Option<u64>) -> Ask {
    Ask {
        provider: "p".to_owned(),
        limits: *limits,
        prices: PRICES,
        prompt_tokens,
        is_open: false,
        completion_tokens,
        left_nano_usd: None,
    }
}

fn used(prompt_tokens: u64, completion_tokens: u64) -> Used {
    Used { prompt_tokens, completion_tokens }
}

fn refused(limits: &ProviderLimits, caps: &Rates, prompt: u64, completion: Option<u64>) -> Value {
    let mut ledger = Ledger::default();
    let refused = ledger.reserve(&ask(limits, prompt, completion), caps, 5).unwrap_err();
    assert_eq!(ledger.usage(5).tokens_today, 0, "a refusal was charged");
    refused.data["limit"].clone()
}

#[test]
fn each_limit_refuses_what_would_exceed_it() {
    let none = ProviderLimits::default();
    let no_caps = Rates::default();
    let day = ProviderLimits { tokens_per_day: Some(100), ..none };
    assert_eq!(refused(&day, &no_caps, 50, Some(51)), "tokens_per_day");
    let request = ProviderLimits { tokens_per_request: Some(100), ..none };
    assert_eq!(refused(&request, &no_caps, 100, None), "tokens_per_request");
    let window = ProviderLimits { max_context_window: Some(100), ..none };
    assert_eq!(refused(&window, &no_caps, 400, None), "max_context_window");
    assert!(Ledger::default().reserve(&ask(&window, 396, Some(1)), &no_caps, 5).is_ok());
    let hour = Rates { tokens_per_hour: Some(9), ..no_caps };
    assert_eq!(refused(&none, &hour, 5, Some(5)), "tokens_per_hour");
    // Ten prompt tokens cost as much as one of the completion, which is all of it.
    let cost = Rates { cost_per_day_usd: Some(0.000_02), ..no_caps };
    assert_eq!(refused(&none, &cost, 10, Some(2)), "cost_per_day_usd");
    assert!(Ledger::default().reserve(&ask(&none, 10, Some(1)), &cost, 5).is_ok());
}

#[test]
fn a_request_for_no_completion_is_held_to_every_limit_all_the_same() {
    let none = ProviderLimits::default();
    let no_caps = Rates::default();
    let zero = Some(0);
    let day = ProviderLimits { tokens_per_day: Some(100), ..none };
    assert_eq!(refused(&day, &no_caps, 101, zero), "tokens_per_day");
    assert!(Ledger::default().reserve(&ask(&day, 99, zero), &no_caps, 5).is_ok());
    let request = ProviderLimits { tokens_per_request: Some(100), ..none };
    assert_eq!(refused(&request, &no_caps, 101, zero), "tokens_per_request");
    let window = ProviderLimits { max_context_window: Some(100), ..none };
    assert_eq!(refused(&window, &no_caps, 404, zero), "max_context_window");
    let hour = Rates { tokens_per_hour: Some(9), ..no_caps };
    assert_eq!(refused(&none, &hour, 10, zero), "tokens_per_hour");
    let cost = Rates { cost_per_day_usd: Some(0.000_02), ..no_caps };
    assert_eq!(refused(&none, &cost, 21, zero), "cost_per_day_usd");
    let budget = Ask { left_nano_usd: Some(20_000), ..ask(&none, 21, zero) };
    let refused = Ledger::default().reserve(&budget, &no_caps, 5).unwrap_err();
    assert_eq!(refused.data["limit"], "limit_usd");
    // What is only counted, or fetched, uses nothing.
    let mut ledger = Ledger::default();
    ledger.reserve(&ask(&day, 100 - 1, Some(1)), &no_caps, 5).map(drop).unwrap();
    assert!(ledger.reserve(&ask(&day, 0, zero), &no_caps, 5).is_ok());
}

#[test]
fn zero_means_none() {
    let zero = Some(0);
    let none = ProviderLimits::default();
    for limits in [
        ProviderLimits { tokens_per_day: zero, ..none },
        ProviderLimits { tokens_per_request: zero, ..none },
        ProviderLimits { requests_per_minute: zero, ..none },
        ProviderLimits { max_context_window: zero, ..none },
    ] {
        refused(&limits, &Rates::default(), 0, None);
        refused(&limits, &Rates::default(), 1, zero);
    }
    for (prompt, completion) in [(0, None), (1, zero)] {
        let hour = Rates { tokens_per_hour: zero, ..Rates::default() };
        refused(&none, &hour, prompt, completion);
        let cost = Rates { cost_per_day_usd: Some(0.0), ..Rates::default() };
        refused(&none, &cost, prompt, completion);
    }
}

#[test]
fn a_request_that_names_no_length_gets_what_is_left() {
    let limits = ProviderLimits { tokens_per_day: Some(100), ..ProviderLimits::default() };
    let mut ledger = Ledger::default();
    let all = ledger.reserve(&ask(&limits, 40, None), &Rates::default(), 5).unwrap();
    assert_eq!(all.completion_tokens(), 60);
    assert!(ledger.reserve(&ask(&limits, 0, None), &Rates::default(), 5).is_err());
    ledger.settle(all, used(30, 10));
    let rest = ledger.reserve(&ask(&limits, 10, None), &Rates::default(), 5).unwrap();
    assert_eq!(rest.completion_tokens(), 50);
    let free = ask(&limits, 10, None);
    let free = Ask { provider: "q".to_owned(), limits: ProviderLimits::default(), ..free };
    let most = ledger.reserve(&free, &Rates::default(), 5).unwrap();
    assert_eq!(most.completion_tokens(), COMPLETION_TOKENS_MAX);
}

#[test]
fn an_agent_gets_what_its_own_budget_pays() {
    let mut ledger = Ledger::default();
    let mut reserve = |left_nano_usd: u64| {
        let ask = ask(&ProviderLimits::default(), 10, None);
        let (prompt, token) = (PRICES.cost(used(10, 0)), PRICES.output_nano_usd);
        let ask = Ask { left_nano_usd: Some(left_nano_usd), ..ask };
        let made = ledger.reserve(&ask, &Rates::default(), 5);
        made.map(|made| made.completion_tokens()).map_err(|error| (error, prompt, token))
    };
    let (error, prompt, token) = reserve(0).unwrap_err();
    assert_eq!((error.kind.code(), &error.data["limit"]), (-32011, &Value::from("limit_usd")));
    assert!(reserve(prompt + token - 1).is_err());
    assert_eq!(reserve(prompt + 3 * token).unwrap(), 3);
}

#[test]
fn a_day_ends_at_midnight_and_not_when_the_clock_is_set_back() {
    let limits = ProviderLimits { tokens_per_day: Some(10), ..ProviderLimits::default() };
    let mut ledger = Ledger::default();
    let mut spend =
        |now_ms| ledger.reserve(&ask(&limits, 9, Some(1)), &Rates::default(), now_ms).map(drop);
    spend(3 * DAY_MS - 1).unwrap();
    let late = spend(3 * DAY_MS - 1).unwrap_err();
    assert_eq!(late.data["retry_after_ms"], 1);
    spend(3 * DAY_MS).unwrap();
    assert!(spend(3 * DAY_MS - 1).is_err(), "the clock was set back over midnight");
    assert!(spend(DAY_MS).is_err(), "the clock was set back two days");
    assert!(spend(2 * DAY_MS).is_ok());
}

#[test]
fn a_window_that_is_full_empties_in_time_though_the_clock_is_set_back() {
    let (now_ms, back_ms) = (9 * DAY_MS, 8 * DAY_MS);
    let minute = ProviderLimits { requests_per_minute: Some(1), ..ProviderLimits::default() };
    let hour = Rates { tokens_per_hour: Some(10), ..Rates::default() };
    let mut ledger = Ledger::default();
    ledger.reserve(&ask(&minute, 9, Some(1)), &hour, now_ms).map(drop).unwrap();
    let other = Ask { provider: "q".to_owned(), ..ask(&minute, 1, Some(1)) };
    let mut limit = |ask: &Ask, now_ms| {
        ledger.reserve(ask, &hour, now_ms).map(drop).map_err(|no| no.data["limit"].clone())
    };
    let same = ask(&minute, 1, Some(1));
    assert_eq!(limit(&same, back_ms), Err("requests_per_minute".into()));
    assert_eq!(limit(&same, back_ms + 61_000), Err("tokens_per_hour".into()));
    // Who has spent nothing itself waits for the others' hour, and no longer.
    assert_eq!(limit(&other, back_ms + 61_000), Err("tokens_per_hour".into()));
    assert_eq!(limit(&other, back_ms + 3_660_000), Ok(()));
}

#[test]
fn what_the_provider_counted_replaces_the_estimate_even_where_it_is_more() {
    let limits = ProviderLimits { tokens_per_day: Some(100), ..ProviderLimits::default() };
    let mut ledger = Ledger::default();
    let one = ledger.reserve(&ask(&limits, 10, Some(10)), &Rates::default(), 5).unwrap();
    ledger.settle(one, used(90, 20));
    let usage = ledger.usage(5);
    assert_eq!((usage.tokens_today, usage.cost_today_usd), (110, 0.000_29));
    assert_eq!(ledger.tokens_last_hour(5), 110);
    assert!(ledger.reserve(&ask(&limits, 0, Some(1)), &Rates::default(), 5).is_err());
    assert_eq!(ledger.usage(DAY_MS).tokens_today, 0);
}

#[test]
fn a_report_is_believed_as_far_as_the_texts_bear_it_out() {
    let none = ProviderLimits::default();
    let mut ledger = Ledger::default();
    let held = ledger.reserve(&ask(&none, 100, Some(10)), &Rates::default(), 5).unwrap();
    let all = u64::MAX;
    assert_eq!(held.charge(used(20, 5), 60, 8), used(20, 5));
    assert_eq!(held.charge(used(0, 0), 60, 9), used(15, 3));
    assert_eq!(held.charge(used(0, 0), 0, 0), used(0, 0));
    assert_eq!(held.charge(used(all, all), 60, 8), used(100, 10));
    // An answer that is longer than was asked for.
    assert_eq!(held.charge(used(0, 900), 60, 4_000), used(15, 1_000));
    assert_eq!(held.charge(used(0, all), 60, 4_000), used(15, 4_000));
}

#[test]
fn a_report_is_believed_beyond_what_is_held_where_nothing_bounds_the_answer() {
    let none = ProviderLimits::default();
    let day = ProviderLimits { tokens_per_day: Some(1_000_000), ..none };
    let minute = ProviderLimits { requests_per_minute: Some(9), ..none };
    let (all, few) = (PROMPT_TOKENS_MAX, COMPLETION_TOKENS_MAX);
    for (limits, most) in [(none, all), (day, few), (minute, few)] {
        let mut ledger = Ledger::default();
        let held = ledger.reserve(&ask(&limits, 100, None), &Rates::default(), 5).unwrap();
        assert_eq!(held.held(), used(100, COMPLETION_TOKENS_MAX));
        // A model that reasons writes more than it shows.
        assert_eq!(held.charge(used(20, 20_000), 60, 8), used(20, most.min(20_000)));
        assert_eq!(held.charge(used(20, u64::MAX), 60, 8), used(20, most));
    }
}

#[test]
fn a_report_is_believed_beyond_the_request_where_that_is_not_all() {
    let mut ledger = Ledger::default();
    let open = Ask { is_open: true, ..ask(&ProviderLimits::default(), 100, Some(10)) };
    let held = ledger.reserve(&open, &Rates::default(), 5).unwrap();
    assert_eq!(held.charge(used(1_000_000, 5), 60, 8), used(1_000_000, 5));
    assert_eq!(held.charge(used(u64::MAX, 5), 60, 8), used(PROMPT_TOKENS_MAX, 5));
    assert_eq!(held.charge(used(0, 0), 60, 8), used(15, 2));
}

#[test]
fn an_answer_after_midnight_is_of_the_day_before() {
    let limits = ProviderLimits::default();
    let mut ledger = Ledger::default();
    let before = ledger.reserve(&ask(&limits, 5, Some(5)), &Rates::default(), DAY_MS - 1).unwrap();
    let after = ledger.reserve(&ask(&limits, 1, Some(1)), &Rates::default(), DAY_MS).unwrap();
    ledger.settle(before, used(100, 100));
    assert_eq!(ledger.usage(DAY_MS).tokens_today, 2);
    ledger.release(after);
    assert_eq!(ledger.usage(DAY_MS).tokens_today, 0);
}

/// One step of callers that run beside each other.
#[derive(Debug, Clone)]
enum Step {
    Reserve {
        prompt: u64,
        completion: Option<u64>,
    },
    /// Of the reservations that are open, the one at this index; what was used, in per mille.
    Settle {
        index: usize,
        per_mille: u64,
    },
    Release {
        index: usize,
    },
    /// The caller was cancelled.
    Lose {
        index: usize,
    },
    Wait {
        ms: u64,
    },
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = 0_usize..8;
    let step = prop_oneof![
        4 => (0_u64..60, prop::option::of(0_u64..60))
            .prop_map(|(prompt, completion)| Step::Reserve { prompt, completion }),
        2 => (index.clone(), 0_u64..=1_000)
            .prop_map(|(index, per_mille)| Step::Settle { index, per_mille }),
        1 => index.clone().prop_map(|index| Step::Release { index }),
        1 => index.prop_map(|index| Step::Lose { index }),
        2 => prop_oneof![0_u64..2_000, 0_u64..(DAY_MS / 2)].prop_map(|ms| Step::Wait { ms }),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..80)
}

/// What was ever granted and not taken back: when, and how many tokens.
#[derive(Debug, Default)]
struct Model(Vec<(u64, u64)>);

impl Model {
    fn today(&self, now_ms: u64) -> u64 {
        self.0.iter().filter(|(at, _)| at / DAY_MS == now_ms / DAY_MS).map(|(_, n)| n).sum()
    }

    /// What surely is of the window: the ledger's window is one piece longer.
    fn since(&self, from_ms: u64) -> impl Iterator<Item = u64> {
        self.0.iter().filter(move |(at, _)| *at > from_ms).map(|(_, n)| *n)
    }
}

fn restart(ledger: &Ledger) -> Ledger {
    let mut next = Ledger::default();
    if let Some(account) = ledger.account("p") {
        let kept = serde_json::to_string(account).unwrap();
        next.restore("p", serde_json::from_str::<Account>(&kept).unwrap());
    }
    next
}

proptest! {
    #[test]
    fn callers_beside_each_other_never_get_more_than_there_is(steps in steps()) {
        let limits = ProviderLimits {
            tokens_per_day: Some(300),
            requests_per_minute: Some(5),
            ..ProviderLimits::default()
        };
        let caps = Rates { tokens_per_hour: Some(200), ..Rates::default() };
        let mut now_ms = 5 * DAY_MS + DAY_MS / 3;
        let mut ledger = Ledger::default();
        let mut model = Model::default();
        let mut open: Vec<(Reservation, usize)> = Vec::new();
        for step in steps {
            match step {
                Step::Reserve { prompt, completion } => {
                    let granted = ledger.reserve(&ask(&limits, prompt, completion), &caps, now_ms);
                    let least = u64::from(prompt > 0 || completion != Some(0));
                    let wanted = completion.unwrap_or(1).max(least);
                    let fits = model.today(now_ms) + prompt + wanted <= 300;
                    match granted {
                        Ok(granted) => {
                            prop_assert!(fits);
                            model.0.push((now_ms, prompt + granted.completion_tokens()));
                            open.push((granted, model.0.len() - 1));
                        }
                        Err(no) => prop_assert!(!fits || no.data["limit"] != "tokens_per_day"),
                    }
                }
                Step::Settle { index, per_mille } if index < open.len() => {
                    let (reservation, at) = open.remove(index);
                    let tokens = model.0[at].1 * per_mille / 1_000;
                    ledger.settle(reservation, used(tokens, 0));
                    model.0[at].1 = tokens;
                }
                Step::Release { index } if index < open.len() => {
                    let (reservation, at) = open.remove(index);
                    ledger.release(reservation);
                    model.0[at] = (0, 0);
                }
                Step::Lose { index } if index < open.len() => drop(open.remove(index)),
                Step::Settle { .. } | Step::Release { .. } | Step::Lose { .. } => {}
                Step::Wait { ms } => now_ms += ms,
                Step::Restart => ledger = restart(&ledger),
            }
            prop_assert_eq!(ledger.usage(now_ms).tokens_today, model.today(now_ms));
            prop_assert!(model.today(now_ms) <= 300);
            prop_assert!(model.since(now_ms - 3_600_000).sum::<u64>() <= 200);
            prop_assert!(model.since(now_ms - 60_000).count() <= 5);
            prop_assert!(ledger.tokens_last_hour(now_ms) >= model.since(now_ms - 3_600_000).sum());
        }
    }
}
