//! What becomes of the calls that a model makes, and what is kept of them.

use serde_json::{Value, json};

use super::*;

#[test]
fn what_ran_is_told_before_its_round_has_ended_and_what_was_used_as_well() {
    let mut runner = Runner::new(&OpenAi, &["svc.get"], Policy::default());
    let calls = [("svc_get", json!({ "n": 1 })), ("svc_get", json!({ "n": 2 }))];
    runner.hear(&[("svc_get", json!({}))], "").unwrap();
    runner.turn.hear(answer(&OpenAi, &calls, ""), 0).unwrap();
    runner.turn.job(0).unwrap().unwrap();
    runner.turn.ran(json!({ "ok": true }), 7);
    let trace = runner.turn.trace();
    let told = &trace[1]["tool_calls"];
    assert_eq!((trace.len(), told.as_array().unwrap().len()), (2, 1));
    assert_eq!((&trace[1]["round"], &told[0]["latency_ms"]), (&json!(2), &json!(7)));
    assert_eq!(runner.turn.usage()["prompt_tokens"], 20);
}

#[test]
fn of_an_answer_with_several_courses_the_first_counts_and_one_with_none_may_be_an_error() {
    let mut said = answer(&OpenAi, &[], "final");
    let other = answer(&OpenAi, &[("svc_get", json!({}))], "")["choices"][0].clone();
    push(&mut said, "choices", other);
    let mut runner = Runner::new(&OpenAi, &["svc.get"], Policy::default());
    let done = done(runner.hear_it(said, 0));
    assert_eq!(done.answer, answer(&OpenAi, &[], "final"));
    let error = json!({ "message": "m" });
    for (dialect, answer, is_error) in [
        (&OpenAi as &dyn Dialect, json!({ "choices": [], "error": error }), true),
        (&OpenAi, json!({ "choices": [], "error": null }), false),
        (&OpenAi, json!({ "choices": [{}], "error": error }), false),
        (&Anthropic, json!({ "type": "error", "content": [{}], "error": error }), true),
        (&Anthropic, json!({ "error": error }), true),
        (&Anthropic, json!({ "type": "message", "content": [] }), false),
        (&Responses, json!({ "status": "failed", "output": [{}], "error": error }), true),
        (&Responses, json!({ "error": error }), true),
        (&Responses, json!({ "status": "incomplete", "output": [], "error": null }), false),
    ] {
        assert_eq!(dialect.is_error(&answer), is_error, "{answer}");
    }
}

#[test]
fn arguments_that_are_an_object_are_taken_and_go_back_as_a_text_and_other_kinds_are_refused() {
    let call = |written: Value| json!({ "id": "id0", "type": "function", "function": { "name": "svc_put", "arguments": written } });
    let chat = |call: Value| json!({ "choices": [{ "message": { "role": "assistant", "tool_calls": [call] } }] });
    let item = |kind: &str, more: Value| {
        let mut item = json!({ "type": kind, "call_id": "id0", "name": "svc_put" });
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "output": [item] })
    };
    let custom =
        json!({ "id": "id0", "type": "custom", "custom": { "name": "svc_put", "input": "x" } });
    let written = json!({ "a": 1 });
    let ran = |dialect: &'static dyn Dialect, answer: Value| {
        let mut runner = Runner::new(dialect, &["svc.put"], Policy::default());
        assert_eq!(runner.turn.hear(answer, 0).unwrap(), Step::Run);
        let arguments = runner.turn.job(0).unwrap().map(|job| job.arguments);
        runner.turn.ran(json!({ "ok": true }), 1);
        runner.turn.close();
        let said = runner.messages().iter().find_map(|message| {
            message
                .pointer("/tool_calls/0/function/arguments")
                .or_else(|| message.get("arguments"))
                .cloned()
        });
        (arguments, said)
    };
    let text = |text: &str| Some(json!(text));
    for (dialect, taken, missing) in [
        (&OpenAi as &dyn Dialect, chat(call(written.clone())), chat(call(Value::Null))),
        (
            &Responses,
            item("function_call", json!({ "arguments": written })),
            item("function_call", json!({})),
        ),
    ] {
        assert_eq!(ran(dialect, taken), (Some(written.clone()), text("{\"a\":1}")));
        assert_eq!(ran(dialect, missing), (Some(json!({})), text("{}")));
    }
    for (dialect, wrong) in [
        (&OpenAi as &dyn Dialect, chat(call(json!([1])))),
        (&OpenAi, chat(call(json!(true)))),
        (&OpenAi, chat(custom)),
        (&Responses, item("function_call", json!({ "arguments": 7 }))),
        (&Responses, item("custom_tool_call", json!({ "input": "x" }))),
        (&Responses, item("computer_call", json!({}))),
    ] {
        assert_eq!(ran(dialect, wrong.clone()).0, None, "{wrong}");
    }
}

#[test]
fn the_last_call_of_an_answer_that_was_cut_is_not_made() {
    for (dialect, place, why) in [
        (&OpenAi as &dyn Dialect, "/choices/0/finish_reason", "length"),
        (&Anthropic, "/stop_reason", "max_tokens"),
        (&Responses, "/status", "incomplete"),
    ] {
        let mut runner = Runner::new(dialect, &["svc.put", "svc.cancel"], Policy::default());
        let calls = [("svc_put", json!({ "a": 1 })), ("svc_cancel", json!({}))];
        let mut cut = answer(dialect, &calls, "");
        *cut.pointer_mut(place).unwrap() = why.into();
        assert_eq!(runner.hear_it(cut, 0).unwrap(), Step::Ask);
        assert_eq!(runner.ran, ["svc.put"]);
        assert_eq!(runner.codes(), ["ok", "invalid_arguments"]);
        assert!(Value::from(runner.messages()).to_string().contains("was cut"));
    }
}

#[test]
fn calls_of_one_answer_for_which_there_is_no_time_left_are_refused() {
    let calls = [1, 2, 3].map(|n| ("svc_get", json!({ "n": n })));
    for dialect in DIALECTS {
        let begun = |strict: bool| {
            let policy = Policy { strict, ..Policy::default() };
            let mut runner = Runner::new(dialect, &["svc.get"], policy);
            assert_eq!(runner.turn.hear(answer(dialect, &calls, ""), 0).unwrap(), Step::Run);
            assert_eq!(runner.turn.job(0).unwrap().unwrap().timeout_ms, 30_000);
            runner.turn.ran(json!({ "ok": true }), 1);
            runner
        };
        let mut runner = begun(false);
        assert_eq!(runner.turn.job(108_000), Ok(None));
        assert_eq!(runner.turn.close(), Step::Ask);
        assert_eq!(runner.codes(), ["ok", "tool_budget_exhausted", "tool_budget_exhausted"]);
        assert!(runner.messages().last().unwrap().to_string().contains("No more tools"));
        assert!(begun(true).turn.job(108_000).is_err());
        // The last one may have taken all of it.
        let mut strict = begun(true);
        for _ in 0..2 {
            let job = strict.turn.job(107_000).unwrap().unwrap();
            assert_eq!(job.timeout_ms, 1_000);
            strict.turn.ran(json!({ "ok": true }), 1);
        }
        assert_eq!(strict.turn.job(108_000), Ok(None));
        assert_eq!(strict.turn.close(), Step::Ask);
    }
}

#[test]
fn a_call_that_fails_in_passing_and_is_made_again_is_no_loop() {
    let [get, put] = [[("svc_get", json!({}))], [("svc_put", json!({}))]];
    let mut runner = Runner::new(&OpenAi, &["svc.get", "svc.put"], bounded(100));
    runner.hear(&get, "").unwrap();
    runner.hear(&get, "").unwrap();
    runner.result = refusal("http_503", Some(503), "later", None);
    for _ in 0..4 {
        runner.hear(&put, "").unwrap();
    }
    assert_eq!(runner.ran.len(), 5);
    assert!(runner.turn.request().get("tools").is_some());
}

#[test]
fn who_calls_tells_no_call_of_a_service_from_another() {
    let calls = [("svc_put", json!({ "claw_id": "a", "n": 1 })), ("svc_put", json!({ "n": 1 }))];
    for is_enveloped in [true, false] {
        let offers = Offers::new(vec![Offer { is_enveloped, ..offer("svc.put") }], Vec::new());
        let mut turn = Turn::new(&OpenAi, request(&OpenAi), offers, Policy::default());
        turn.hear(answer(&OpenAi, &calls, ""), 0).unwrap();
        let job = turn.job(0).unwrap().unwrap();
        assert_eq!(job.arguments, calls[0].1);
        turn.ran(json!({ "ok": true }), 1);
        assert_eq!(turn.job(0).unwrap().is_none(), is_enveloped);
    }
}

#[test]
fn of_a_long_turn_results_are_shortened_and_nothing_else() {
    const BYTES: usize = 50_000;
    for dialect in DIALECTS {
        let mut runner = Runner::new(dialect, &["svc.put", "svc.get"], Policy::default());
        let short = json!({ "ok": true, "status_code": 200, "data": { "id": 7 } });
        runner.result = short.clone();
        runner.hear(&[("svc_put", json!({ "n": 1 }))], "Let me see.").unwrap();
        let long = "ä\"".repeat(5_000);
        runner.result = json!({ "ok": true, "data": long });
        let calls: Vec<_> = (0..17).map(|n| ("svc_get", json!({ "n": n }))).collect();
        runner.hear(&calls, "").unwrap();
        let mut whole = done(runner.hear(&[], "bye")).hidden;
        let mut hidden = whole.clone();
        fit(dialect, &mut hidden, usize::MAX);
        assert_eq!(hidden, whole);
        fit(dialect, &mut hidden, BYTES);
        let bytes = Value::from(hidden.clone()).to_string().len();
        assert!((BYTES - 1_000..=BYTES).contains(&bytes), "{bytes}");
        // Takes the results out.
        let results = |messages: &mut Vec<Value>| -> Vec<Value> {
            let results = messages.iter_mut().flat_map(|message| dialect.results(message));
            let texts = results.map(Value::take);
            texts.map(|text| serde_json::from_str(text.as_str().unwrap()).unwrap()).collect()
        };
        let told = results(&mut hidden);
        assert_eq!((told.len(), &told[0]), (18, &short));
        let last = &told[17];
        assert_eq!((&last["ok"], &last["truncated"]), (&json!(true), &json!(true)));
        assert_eq!(last["original_bytes"], json!(long.len()));
        assert!(long.starts_with(last["data"].as_str().unwrap()), "{last}");
        results(&mut whole);
        assert_eq!(hidden, whole);
    }
}

#[test]
fn an_error_that_is_shortened_for_the_next_turn_has_its_code_still() {
    let long = |kind: &str| format!("{kind} {}", "ä\"".repeat(2_000));
    let details = json!({ "kind": "k" });
    let errors = [
        json!({ "code": "c", "message": "m", "details": { "why": long("why") } }),
        json!({ "code": "c", "message": long("m"), "details": details }),
        json!({ "code": "c", "message": long("m"), "details": { "why": long("why") } }),
    ];
    for (number, error) in errors.into_iter().enumerate() {
        let envelope = json!({ "ok": false, "status_code": 422, "error": error });
        let mut messages =
            [json!({ "role": "tool", "tool_call_id": "id", "content": envelope.to_string() })];
        fit(&OpenAi, &mut messages, 1_000);
        assert!(messages[0].to_string().len() <= 1_000, "{}", messages[0]);
        let told: Value = serde_json::from_str(messages[0]["content"].as_str().unwrap()).unwrap();
        assert_eq!((&told["ok"], &told["truncated"]), (&json!(false), &json!(true)));
        assert_eq!((&told["status_code"], &told["error"]["code"]), (&json!(422), &json!("c")));
        if number == 1 {
            assert_eq!(told["error"]["details"], details);
        } else {
            assert!(told["error"]["message"].as_str().unwrap().starts_with('m'), "{told}");
        }
    }
}

/// What the runner was asked to call, and what it says came of it.
fn round_of_own(dialect: &dyn Dialect, number: usize) -> Vec<Value> {
    let id = |call: usize| format!("own{number}_{call}");
    let calls = [id(0), id(1)];
    match dialect.name() {
        "openai" => {
            let made = calls.clone().map(|id| json!({ "id": id, "type": "function", "function": { "name": "own", "arguments": "{}" } }));
            let said = json!({ "role": "assistant", "content": null, "tool_calls": made });
            let told =
                calls.map(|id| json!({ "role": "tool", "tool_call_id": id, "content": "x" }));
            [said].into_iter().chain(told).collect()
        }
        "responses" => {
            let made = calls.clone().map(|id| json!({ "type": "function_call", "call_id": id, "name": "own", "arguments": "{}" }));
            let told = calls
                .map(|id| json!({ "type": "function_call_output", "call_id": id, "output": "x" }));
            made.into_iter().chain(told).collect()
        }
        _ => {
            let made = calls
                .clone()
                .map(|id| json!({ "type": "tool_use", "id": id, "name": "own", "input": {} }));
            let told =
                calls.map(|id| json!({ "type": "tool_result", "tool_use_id": id, "content": "x" }));
            // What a client puts beside results is none of the user's words.
            let told = told.into_iter().chain([json!({ "type": "text", "text": "reminder" })]);
            vec![
                json!({ "role": "assistant", "content": made }),
                json!({ "role": "user", "content": told.collect::<Vec<_>>() }),
            ]
        }
    }
}

#[test]
fn rounds_since_the_user_spoke_end_whoever_has_the_tools() {
    const MOST: u32 = 3;
    let bounds = TurnBounds { max_tool_iterations: MOST, ..TurnBounds::default() };
    let policy = Policy { bounds, ..Policy::default() };
    for dialect in DIALECTS {
        let key = dialect.messages();
        let begun = |policy: Policy, rounds: usize, more: Option<Value>| {
            let mut request = request(dialect);
            // Those before the user's last words do not count.
            let said = (0..7).flat_map(|number| round_of_own(dialect, number));
            let again = [json!({ "role": "user", "content": "and now" })];
            let since = (7..7 + rounds).flat_map(|number| round_of_own(dialect, number));
            let all = said.chain(again).chain(since).chain(more);
            all.for_each(|message| push(&mut request, key, message));
            Runner::asking(dialect, request, &["svc.get"], policy)
        };
        let own = [("own", json!({})), ("own", json!({ "n": 1 }))];
        let get = [("svc_get", json!({}))];

        // The last round that there is may be the runner's.
        let left = done(begun(policy, 2, None).hear(&own, ""));
        assert_eq!(left.answer, answer(dialect, &own, ""));
        // Or ours, and then calls of either are answered, and the model is asked for its last words.
        for last in [&own[..], &[own[0].clone(), get[0].clone()], &get] {
            let mut runner = begun(policy, 2, None);
            assert_eq!(runner.hear(&get, "").unwrap(), Step::Ask);
            assert_eq!((runner.ran.len(), runner.codes()), (1, vec!["ok".to_owned()]));
            assert_eq!(runner.hear(last, "").unwrap(), Step::Ask);
            assert_eq!(runner.ran.len(), 1);
            assert_eq!(runner.codes(), vec!["tool_budget_exhausted"; last.len()]);
            let result = &runner.turn.trace()[1]["tool_calls"][0]["result"];
            assert_eq!(result["error"]["details"]["max_tool_iterations"], MOST);
            let request = runner.turn.request();
            assert!(request.get("tools").is_none() || request["tool_choice"]["type"] == "none");
            assert!(runner.messages().last().unwrap().to_string().contains("No more tools"));
            assert_eq!(done(runner.hear(&[], "bye")).answer["usage"], usage_of(dialect, 3));
        }
        // With none left the runner's calls do not reach it, and words do.
        assert_eq!(begun(policy, 3, None).hear(&own, "").unwrap(), Step::Ask);
        assert!(begun(Policy { strict: true, ..policy }, 3, None).hear(&own, "").is_err());
        assert!(done(begun(policy, 3, None).hear(&[], "bye")).hidden.is_empty());
        let next = Some(json!({ "role": "user", "content": "go on" }));
        done(begun(policy, 3, next).hear(&own, ""));
    }
}

/// What so many answers used together.
fn usage_of(dialect: &dyn Dialect, answers: u64) -> Value {
    let mut usage = answer(dialect, &[], "")["usage"].clone();
    for count in usage.as_object_mut().unwrap().values_mut() {
        *count = (count.as_u64().unwrap() * answers).into();
    }
    usage
}
