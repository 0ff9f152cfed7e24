//! Turns of a runner, in every dialect, against a model that says what it is told to.

mod calls;
mod told;

use serde_json::{Value, json};

use super::values::{push, set, texts};
use super::*;
use crate::json::items;
use crate::limits::{PROXY_ANSWER_CALLS_MAX, PROXY_NEAREST_MAX, PROXY_REPEATS_MAX};
use crate::reply::{Content, ToolReply};

const DIALECTS: [&dyn Dialect; 3] = [&OpenAi, &Anthropic, &Responses];

fn offer(tool: &str) -> Offer {
    Offer {
        tool: tool.to_owned(),
        name: String::new(),
        known_as: vec![tool.replace('.', "__")],
        description: format!("About {tool}."),
        schema: json!({ "type": "object" }),
        service: tool.split_once('.').map(|(service, _)| service.to_owned()).unwrap_or_default(),
        read_only: tool.contains("get"),
        is_terminal: tool.contains("end"),
        is_enveloped: false,
    }
}

/// A request with the tool `own` of the runner's.
fn request(dialect: &dyn Dialect) -> Value {
    let own = match dialect.name() {
        "openai" => json!({ "type": "function", "function": { "name": "own", "parameters": {} } }),
        "responses" => json!({ "type": "function", "name": "own", "parameters": {} }),
        _ => json!({ "name": "own", "input_schema": {} }),
    };
    let said = json!([{ "role": "user", "content": "hello" }]);
    json!({ "model": "m", dialect.messages(): said, "tools": [own], "stream": true, "x-kept": 1.50 })
}

/// An answer that makes these calls, or says `text`.
fn answer(dialect: &dyn Dialect, calls: &[(&str, Value)], text: &str) -> Value {
    let id = |at: usize| format!("id{at}");
    let numbered = || calls.iter().enumerate();
    if dialect.name() == "openai" {
        let made: Vec<Value> = numbered()
            .map(|(at, (name, input))| {
                let arguments = input.as_str().map_or_else(|| input.to_string(), str::to_owned);
                json!({ "id": id(at), "type": "function", "function": { "name": name, "arguments": arguments } })
            })
            .collect();
        let mut message = json!({ "role": "assistant", "content": text });
        if !made.is_empty() {
            set(&mut message, "tool_calls", made.into());
        }
        let finish = if calls.is_empty() { "length" } else { "tool_calls" };
        return json!({ "id": "c", "choices": [{ "index": 0, "message": message, "finish_reason": finish }], "usage": { "prompt_tokens": 10, "completion_tokens": 2 } });
    }
    if dialect.name() == "responses" {
        let made = numbered().map(|(at, (name, input))| {
            let arguments = input.as_str().map_or_else(|| input.to_string(), str::to_owned);
            json!({ "type": "function_call", "id": format!("fc{at}"), "call_id": id(at), "name": name, "arguments": arguments })
        });
        let part = json!({ "type": "output_text", "text": text, "annotations": [] });
        let said =
            json!({ "type": "message", "id": "msg", "role": "assistant", "content": [part] });
        let said = (!text.is_empty()).then_some(said);
        let output: Vec<Value> = said.into_iter().chain(made).collect();
        return json!({ "id": "r", "object": "response", "status": "completed", "output": output, "usage": { "input_tokens": 10, "output_tokens": 2 } });
    }
    let said = (!text.is_empty()).then(|| json!({ "type": "text", "text": text }));
    let made = numbered().map(|(at, (name, input))| {
        json!({ "type": "tool_use", "id": id(at), "name": name, "input": input })
    });
    let content: Vec<Value> = said.into_iter().chain(made).collect();
    let stop = if calls.is_empty() { "max_tokens" } else { "tool_use" };
    json!({ "id": "m", "type": "message", "role": "assistant", "content": content, "stop_reason": stop, "usage": { "input_tokens": 10, "output_tokens": 2 } })
}

fn bounded(max_rounds: u32) -> Policy {
    let bounds = TurnBounds { max_rounds, ..TurnBounds::default() };
    Policy { bounds, ..Policy::default() }
}

struct Runner {
    dialect: &'static dyn Dialect,
    turn: Turn,
    ran: Vec<String>,
    /// What each call comes to.
    result: Value,
}

impl Runner {
    fn new(dialect: &'static dyn Dialect, tools: &[&str], policy: Policy) -> Self {
        Self::asking(dialect, request(dialect), tools, policy)
    }

    fn asking(
        dialect: &'static dyn Dialect,
        request: Value,
        tools: &[&str],
        policy: Policy,
    ) -> Self {
        let offers = tools.iter().map(|tool| offer(tool)).collect();
        let offers = Offers::new(offers, dialect.declared(&request));
        let turn = Turn::new(dialect, request, offers, policy);
        Self { dialect, turn, ran: Vec::new(), result: json!({ "ok": true, "data": 1 }) }
    }

    /// Hears an answer and carries out what it asks for.
    fn hear(&mut self, calls: &[(&str, Value)], text: &str) -> Result<Step, Failed> {
        self.hear_at(calls, text, 0)
    }

    fn hear_at(&mut self, calls: &[(&str, Value)], text: &str, ms: u64) -> Result<Step, Failed> {
        self.hear_it(answer(self.dialect, calls, text), ms)
    }

    fn hear_it(&mut self, answer: Value, ms: u64) -> Result<Step, Failed> {
        let step = self.turn.hear(answer, ms)?;
        if step != Step::Run {
            return Ok(step);
        }
        while let Some(job) = self.turn.job(ms)? {
            self.ran.push(job.tool);
            self.turn.ran(self.result.clone(), 1);
        }
        Ok(self.turn.close())
    }

    fn codes(&self) -> Vec<String> {
        let last = self.turn.trace().last().unwrap();
        let calls = last["tool_calls"].as_array().unwrap().iter();
        let code =
            |call: &Value| call["result"]["error"]["code"].as_str().unwrap_or("ok").to_owned();
        calls.map(code).collect()
    }

    fn messages(&self) -> Vec<Value> {
        self.turn.request()[self.dialect.messages()].as_array().unwrap().clone()
    }
}

fn done(step: Result<Step, Failed>) -> Done {
    match step.unwrap() {
        Step::Done(done) => *done,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tools_stand_behind_the_runners_own_and_all_else_stays() {
    for dialect in DIALECTS {
        let runner = Runner::new(dialect, &["svc.get", "own"], Policy::default());
        let request = runner.turn.request();
        assert_eq!((&request["x-kept"], &request["stream"]), (&json!(1.5), &json!(false)));
        // What the runner has as well is told apart.
        let names: Vec<String> = dialect.declared(request);
        assert_eq!(names[..2], ["own", "svc_get"], "{names:?}");
        assert!(names[2].starts_with("own_") && names.len() == 3, "{names:?}");
    }
}

#[test]
fn a_tool_that_claude_would_refuse_is_left_out_for_it_alone() {
    for dialect in DIALECTS {
        let mut odd = offer("odd.get");
        odd.schema = json!({ "type": "object", "properties": { "a b": {} } });
        let mut request = request(dialect);
        let declared = dialect.declared(&request);
        dialect.inject(&mut request, &Offers::new(vec![odd, offer("svc.get")], declared));
        let expected: &[&str] = match dialect.name() {
            "anthropic" => &["own", "svc_get"],
            _ => &["own", "odd_get", "svc_get"],
        };
        assert_eq!(dialect.declared(&request), expected, "{}", dialect.name());
    }
}

#[test]
fn functions_of_old_become_tools_and_come_back_as_they_were() {
    let mut request = json!({
        "functions": [{ "name": "own" }], "function_call": { "name": "own" }, "messages": [],
    });
    let asked = request.clone();
    OpenAi.inject(&mut request, &Offers::new(vec![offer("svc.get")], vec!["own".to_owned()]));
    assert_eq!(OpenAi.declared(&request), ["own", "svc_get"]);
    assert_eq!(request["tool_choice"]["function"]["name"], "own");
    assert!(request.get("functions").is_none() && request.get("function_call").is_none());
    let mut said = answer(&OpenAi, &[("own", json!({ "a": 1 }))], "");
    OpenAi.deliver(&asked, &mut said);
    let message = &said["choices"][0]["message"];
    assert_eq!(message["function_call"], json!({ "name": "own", "arguments": "{\"a\":1}" }));
    assert!(message.get("tool_calls").is_none());
    assert_eq!(said["choices"][0]["finish_reason"], "function_call");
}

#[test]
fn a_choice_of_a_tool_means_the_name_that_the_model_sees() {
    let offers = Offers::new(vec![offer("svc.get")], Vec::new());
    let mut request =
        json!({ "tool_choice": { "type": "function", "function": { "name": "svc.get" } } });
    OpenAi.inject(&mut request, &offers);
    assert_eq!(request["tool_choice"]["function"]["name"], "svc_get");
    let mut request = json!({ "tool_choice": { "type": "tool", "name": "svc.get" } });
    Anthropic.inject(&mut request, &offers);
    assert_eq!(request["tool_choice"]["name"], "svc_get");
}

#[test]
fn calls_of_ours_are_carried_out_and_hidden_and_usage_is_summed() {
    for dialect in DIALECTS {
        let mut runner = Runner::new(dialect, &["svc.get", "svc.put"], Policy::default());
        let calls = [("svc_get", json!({})), ("svc_put", json!({ "a": 1 }))];
        assert_eq!(runner.hear(&calls, "").unwrap(), Step::Ask);
        assert_eq!(runner.ran, ["svc.get", "svc.put"]);
        let hidden = runner.messages()[1..].to_vec();
        let done = done(runner.hear(&[], "bye"));
        assert_eq!(done.hidden, hidden);
        let usage = done.answer["usage"].as_object().unwrap();
        assert_eq!(usage.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), 24, "{usage:?}");
    }
}

#[test]
fn the_runners_own_calls_are_its_own() {
    for dialect in DIALECTS {
        let mut runner = Runner::new(dialect, &["svc.get"], Policy::default());
        let done = done(runner.hear(&[("own", json!({})), ("unheard-of", json!({}))], ""));
        assert!(done.hidden.is_empty() && runner.ran.is_empty());
        assert_eq!(
            done.answer,
            answer(dialect, &[("own", json!({})), ("unheard-of", json!({}))], "")
        );
    }
}

#[test]
fn ours_before_the_runners_run_and_the_rest_is_asked_for_again() {
    for dialect in DIALECTS {
        let mut runner = Runner::new(dialect, &["svc.get"], Policy::default());
        let calls = [("svc_get", json!({})), ("own", json!({}))];
        assert_eq!(runner.hear(&calls, "both").unwrap(), Step::Ask);
        assert_eq!(runner.ran, ["svc.get"]);
        let said = Value::from(runner.messages()[1..].to_vec()).to_string();
        assert!(said.contains("svc_get") && !said.contains("own"), "{said}");
        assert_eq!(runner.turn.interventions(), ["managed_prefix_native_suffix_serialized"]);
        let hidden = runner.messages()[1..].to_vec();
        let done = done(runner.hear(&[("own", json!({}))], ""));
        assert_eq!(done.hidden, hidden);
    }
}

#[test]
fn ours_after_the_runners_run_not_and_each_is_answered() {
    for dialect in DIALECTS {
        let mut runner = Runner::new(dialect, &["svc.get"], Policy::default());
        let calls = [("own", json!({})), ("svc_get", json!({}))];
        assert_eq!(runner.hear(&calls, "").unwrap(), Step::Ask);
        assert!(runner.ran.is_empty());
        assert_eq!(runner.codes(), ["mixed_tool_order", "mixed_tool_order"]);
        assert_eq!(runner.turn.rounds(), 1);
    }
}

#[test]
fn what_looks_like_ours_is_refused_and_what_cannot_be_read_is_said() {
    for dialect in DIALECTS {
        let mut runner = Runner::new(dialect, &["svc.get_all", "svc.get"], Policy::default());
        let calls =
            [("svc_gett_all", json!({})), ("svc__other", json!({})), ("svc.get", json!("{\"a\""))];
        assert_eq!(runner.hear(&calls, "").unwrap(), Step::Ask);
        assert_eq!(runner.codes(), ["unsupported_tool", "unsupported_tool", "invalid_arguments"]);
        let said = Value::from(runner.messages()).to_string();
        assert!(!said.contains("{\\\"a\\\""), "{said}");
    }
    let mut said = answer(&OpenAi, &[("svc_get", json!("")), ("svc_get", json!("[1]"))], "");
    let calls = OpenAi.calls(&mut said, 1);
    assert_eq!(calls[0].arguments, Ok(json!({})));
    assert!(calls[1].arguments.is_err());
}

#[test]
fn a_turn_without_rounds_or_time_ends_with_last_words_or_fails() {
    let call = |n: u64| [("svc_get", json!({ "n": n }))];
    for dialect in DIALECTS {
        let policy = bounded(1);
        let mut runner = Runner::new(dialect, &["svc.get"], policy);
        assert_eq!(runner.hear(&call(1), "").unwrap(), Step::Ask);
        assert_eq!(runner.hear(&call(2), "").unwrap(), Step::Ask);
        assert_eq!(
            (runner.codes(), runner.ran.len()),
            (vec!["tool_budget_exhausted".to_owned()], 1)
        );
        let request = runner.turn.request();
        let no_tools = request.get("tools").is_none() || request["tool_choice"]["type"] == "none";
        assert!(no_tools, "{request}");
        assert!(runner.messages().last().unwrap().to_string().contains("No more tools"));
        assert!(runner.hear(&call(3), "").is_err());

        let mut runner = Runner::new(dialect, &["svc.get"], Policy::default());
        assert_eq!(runner.hear_at(&call(1), "", 108_000).unwrap(), Step::Ask);
        assert_eq!(runner.turn.trace()[0]["round_usage"]["prompt_tokens"], 10);
        let result = &runner.turn.trace()[0]["tool_calls"][0]["result"];
        assert_eq!(result["error"]["details"]["data_may_be_stale"], true);
        let last = done(runner.hear_at(&[], "bye", 110_000));
        assert!(!last.hidden.iter().any(|message| message.to_string().contains("No more tools")));

        let mut strict = Runner::new(dialect, &["svc.get"], Policy { strict: true, ..bounded(0) });
        assert!(strict.hear(&call(1), "").is_err());
    }
}

#[test]
fn the_same_call_runs_once_whatever_the_order_of_its_keys() {
    let mut runner = Runner::new(&OpenAi, &["svc.get"], Policy::default());
    assert_eq!(runner.hear(&[("svc_get", json!("{\"a\":1,\"b\":[1,2]}"))], "").unwrap(), Step::Ask);
    assert_eq!(
        runner.hear(&[("svc_get", json!("{\"b\":[1,2],\"a\":1.0}"))], "").unwrap(),
        Step::Ask
    );
    assert_eq!((runner.codes(), runner.ran.len()), (vec!["duplicate_tool_call".to_owned()], 1));
    let call = &runner.turn.trace()[1]["tool_calls"][0];
    assert_eq!((&call["duplicate_of_round"], &call["duplicate_count"]), (&json!(1), &json!(1)));
    assert_eq!(runner.hear(&[("svc_get", json!("{\"a\":1,\"b\":[2,1]}"))], "").unwrap(), Step::Ask);
    assert_eq!(runner.ran.len(), 2);
}

#[test]
fn what_may_have_changed_or_failed_in_passing_runs_again() {
    let get = [("svc_get", json!({}))];
    let put = [("svc_put", json!({}))];
    let policy = Policy { repeat: Repeat::Replay, ..Policy::default() };
    let mut runner = Runner::new(&Anthropic, &["svc.get", "svc.put"], policy);
    for calls in [&get, &put, &get] {
        runner.hear(calls, "").unwrap();
    }
    assert_eq!(runner.ran, ["svc.get", "svc.put", "svc.get"]);
    runner.hear(&put, "").unwrap();
    assert_eq!((runner.codes(), runner.ran.len()), (vec!["ok".to_owned()], 3), "a replay");

    let mut runner = Runner::new(&Anthropic, &["svc.get"], policy);
    runner.result = refusal("timeout", Some(504), "late", None);
    runner.hear(&get, "").unwrap();
    runner.hear(&get, "").unwrap();
    assert_eq!(runner.ran.len(), 2);
}

#[test]
fn a_model_that_goes_round_in_circles_loses_its_tools() {
    let [a, b] = [1, 2].map(|n| [("svc_get", json!({ "n": n }))]);
    let in_a_row = vec![&a, &a, &a];
    let by_turns: Vec<_> =
        [&a, &b].into_iter().cycle().take(PROXY_REPEATS_MAX as usize + 2).collect();
    for calls in [in_a_row, by_turns] {
        let policy = bounded(100);
        let mut runner = Runner::new(&OpenAi, &["svc.get"], policy);
        for (made, call) in calls.iter().enumerate() {
            assert!(runner.turn.request().get("tools").is_some(), "after {made}");
            runner.hear(*call, "").unwrap();
        }
        assert!(runner.turn.request().get("tools").is_none(), "after {}", calls.len());
    }
}

#[test]
fn a_tool_that_ends_the_turn_is_last_and_its_success_ends_it() {
    for dialect in DIALECTS {
        let mut runner = Runner::new(dialect, &["svc.end", "svc.get"], Policy::default());
        let calls = [("svc_end", json!({})), ("svc_get", json!({}))];
        assert_eq!(runner.hear(&calls, "").unwrap(), Step::Ask);
        assert_eq!(runner.codes(), ["terminal_on_success_order"; 2]);
        runner.result = json!({ "ok": false });
        assert_eq!(runner.hear(&[("svc_end", json!({}))], "").unwrap(), Step::Ask);
        runner.result = json!({ "ok": true });
        let done = done(runner.hear(&[("svc_end", json!({ "again": true }))], "words"));
        let mut answer = done.answer.clone();
        assert!(dialect.calls(&mut answer, 9).is_empty());
        assert!(!answer.to_string().contains("words"), "{answer}");
        let finish = match dialect.name() {
            "openai" => "\"stop\"",
            "responses" => "\"completed\"",
            _ => "\"end_turn\"",
        };
        assert!(answer.to_string().contains(finish), "{answer}");
    }
}

#[test]
fn results_are_cut_on_a_character_border_with_their_true_size() {
    let text = "ä\"".repeat(1_000);
    let reply = ToolReply { content: vec![Content::Text(text.clone())], ..ToolReply::default() };
    let cut = of_reply(&reply, false, 100);
    assert_eq!((&cut["truncated"], &cut["original_bytes"]), (&json!(true), &json!(text.len())));
    assert!(
        cut["data"].to_string().len() <= 102 && text.starts_with(cut["data"].as_str().unwrap())
    );
    let whole = of_reply(&reply, false, 100_000);
    assert_eq!(whole, json!({ "ok": true, "data": text }));
    let json =
        ToolReply { content: vec![Content::Text("{\"a\": 1}".to_owned())], ..ToolReply::default() };
    assert_eq!(of_reply(&json, false, 100), json!({ "ok": true, "data": { "a": 1 } }));
    let enveloped = json!({ "ok": false, "status_code": 404, "error": { "code": "http_404", "message": "no" } });
    let reply =
        ToolReply { structured: Some(enveloped.clone()), is_error: true, ..ToolReply::default() };
    assert_eq!(of_reply(&reply, true, 100), enveloped);
    let failed = of_reply(&ToolReply::error("file-not-found", "there is no x"), true, 100);
    assert_eq!((&failed["ok"], &failed["error"]["code"]), (&json!(false), &json!("tool_error")));
}

#[test]
fn only_a_services_answer_is_an_envelope_and_none_is_longer_than_it_may_be() {
    let long = "x".repeat(1_000);
    for (structured, is_error) in [
        (json!({ "ok": true, "data": 1, "more": long }), false),
        (json!({ "ok": true, "error": 1, "more": { "a": long } }), true),
        (json!({ "ok": true, "data": long }), true),
    ] {
        for is_enveloped in [false, true] {
            let reply = ToolReply {
                structured: Some(structured.clone()),
                is_error,
                ..ToolReply::default()
            };
            let envelope = of_reply(&reply, is_enveloped, 256);
            assert_eq!(envelope["ok"], !is_error, "{envelope}");
            assert!(envelope.to_string().len() < 400, "{envelope}");
            assert_eq!(envelope["truncated"], true);
        }
    }
    // What a reply had no room for is an envelope still, and no text of one within another.
    let structured = Some(json!({ "ok": true, "status_code": 200, "data": long }));
    let cut = ToolReply { structured, ..ToolReply::default() };
    let cut = crate::truncate::reply(cut, 900);
    for bytes_max in [300, 5_000] {
        let envelope = of_reply(&cut, true, bytes_max);
        assert_eq!((&envelope["status_code"], &envelope["truncated"]), (&json!(200), &json!(true)));
        assert!(envelope["data"].as_str().unwrap().starts_with("xxx"), "{envelope}");
    }
    let structured = Some(json!({ "ok": false, "error": "mine" }));
    let own = ToolReply { structured, ..ToolReply::default() };
    assert_eq!(of_reply(&own, false, 256)["data"], json!({ "ok": false, "error": "mine" }));
}

#[test]
fn calls_of_one_id_have_results_of_their_own() {
    for dialect in DIALECTS {
        let mut turn = Turn::new(
            dialect,
            request(dialect),
            Offers::new(vec![offer("svc.do")], vec!["own".to_owned()]),
            Policy::default(),
        );
        let calls = [("svc_do", json!({ "n": 1 })), ("svc_do", json!({ "n": 2 }))];
        let said = answer(dialect, &calls, "").to_string().replace("id1", "id0");
        turn.hear(serde_json::from_str(&said).unwrap(), 0).unwrap();
        for number in [1, 2] {
            let job = turn.job(0).unwrap().unwrap();
            assert_eq!(job.arguments["n"], number, "{}", dialect.name());
            turn.ran(json!({ "ok": true, "is": format!("result {number}") }), 0);
        }
        turn.close();
        let said = turn.request().to_string();
        for once in ["result 1", "result 2"] {
            assert_eq!(said.matches(once).count(), 1, "{}: {said}", dialect.name());
        }
        // In the call, and in its result; nothing else.
        let name = dialect.name();
        assert_eq!(said.matches("\"id0\"").count(), 2, "{name}: {said}");
    }
}

#[test]
fn a_list_that_is_null_is_an_empty_one() {
    let mut request = json!({ "input": null });
    push(&mut request, "input", 1.into());
    assert_eq!(request["input"], json!([1]));
}

#[test]
fn an_answer_makes_only_so_many_calls() {
    for dialect in DIALECTS {
        for name in ["own", "svc_get"] {
            let made = |count| vec![(name, json!({})); count];
            let mut runner = Runner::new(dialect, &["svc.get"], Policy::default());
            assert!(runner.hear(&made(PROXY_ANSWER_CALLS_MAX), "").is_ok());
            assert!(runner.hear(&made(PROXY_ANSWER_CALLS_MAX + 1), "").is_err());
        }
    }
}

#[test]
fn one_answer_repeats_no_more_than_a_turn_and_is_told_of_the_nearest_tools() {
    let policy = Policy { repeat: Repeat::Replay, ..Policy::default() };
    let mut runner = Runner::new(&OpenAi, &["svc.get"], policy);
    runner.hear(&vec![("svc_get", json!({})); 100], "").unwrap();
    let codes = runner.codes();
    let replayed = codes.iter().filter(|code| *code == "ok").count();
    assert_eq!(replayed, 1 + PROXY_REPEATS_MAX as usize);
    assert_eq!(codes.last().unwrap(), "tool_budget_exhausted");

    let tools: Vec<String> = (0..50).map(|n| format!("svc.get{n}")).collect();
    let tools: Vec<&str> = tools.iter().map(String::as_str).chain(["svc.put_all"]).collect();
    let mut runner = Runner::new(&OpenAi, &tools, Policy::default());
    runner.hear(&[("svc_put_al", json!({}))], "").unwrap();
    let result = &runner.turn.trace()[0]["tool_calls"][0]["result"];
    let named = result["error"]["details"]["tools"].as_array().unwrap();
    assert_eq!((named.len(), &named[0]), (PROXY_NEAREST_MAX, &json!("svc_put_all")));
}

#[test]
fn a_tool_without_its_service_or_with_another_sign_in_its_name_is_told_first() {
    let tools: Vec<String> = (0..50).map(|n| format!("my-svc.get{n}")).collect();
    let tools: Vec<&str> = tools.iter().map(String::as_str).chain(["my-svc.put_all"]).collect();
    for wrong in ["put_all", "my_svc_put_all", "mysvc_put_all", "my-svc__put_all"] {
        let mut runner = Runner::new(&OpenAi, &tools, Policy::default());
        runner.hear(&[(wrong, json!({}))], "").unwrap();
        let result = &runner.turn.trace()[0]["tool_calls"][0]["result"];
        assert_eq!(result["error"]["code"], "unsupported_tool", "{wrong}");
        assert_eq!(result["error"]["details"]["tools"][0], "my-svc_put_all", "{wrong}");
    }
}

#[test]
fn a_stream_says_nothing_long_again_and_nothing_before_it_is_asked() {
    let long = "x".repeat(1_000_000);
    for dialect in DIALECTS {
        let mut said = answer(dialect, &vec![("own", json!({})); 20_000], "");
        said["unknown"] = long.clone().into();
        if dialect.name() == "openai" {
            said["model"] = long.clone().into();
            said["choices"][0]["index"] = long.clone().into();
        }
        let mut events = dialect.events(said, &json!({}));
        assert!(events.next().is_some(), "the first");
        // The last event of a response is all of it.
        let is_whole = |event: &String| event.contains("\"response\":{");
        let lengths: Vec<usize> =
            events.filter(|e| !is_whole(e)).map(|event| event.len()).collect();
        assert!(lengths.len() > 20_000 && lengths.iter().all(|bytes| *bytes < 1_000));
    }
}

#[test]
fn hidden_messages_come_back_before_what_they_led_to() {
    for dialect in DIALECTS {
        let spoken = |calls: &[(&str, Value)], text| dialect.message(&answer(dialect, calls, text));
        let user = |text: &str| json!({ "role": "user", "content": text });
        let called = spoken(&[("own", json!({}))], "");
        let mut request = json!({ dialect.messages(): [user("a"), spoken(&[], "yes"), user("b"), called, user("c"), spoken(&[], " yes\n"), user("d")] });
        let kept_at = |place: usize, message: &Value, name: &str| Kept {
            anchor: dialect.anchor(message).unwrap(),
            place,
            hidden: vec![user(name)],
        };
        let kept = |message: &Value, name: &str| kept_at(usize::MAX, message, name);
        let mut asked = request.clone();
        let turns = vec![
            kept(&spoken(&[], "yes"), "h1"),
            kept(&spoken(&[], "never said"), "h2"),
            kept(&called, "h3"),
            kept(&spoken(&[], "yes"), "h4"),
        ];
        weave(dialect, &mut request, turns);
        let said: Vec<String> = request[dialect.messages()]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| texts(&m["content"]))
            .collect();
        assert_eq!(said, ["a", "h1", "yes", "b", "h3", "", "c", "h4", " yes\n", "d"]);
        // What the model said in the same words later, with nothing hidden, is of another turn.
        weave(dialect, &mut asked, vec![kept_at(1, &spoken(&[], "yes"), "h1")]);
        assert_eq!(asked[dialect.messages()][1], user("h1"));
        // A turn that was made again is one, and runners leave out what is old.
        let again = vec![
            kept_at(9, &called, "h2"),
            kept_at(5, &spoken(&[], "yes"), "none"),
            kept_at(5, &spoken(&[], "yes"), "h3"),
        ];
        weave(dialect, &mut asked, again);
        let said = asked[dialect.messages()].as_array().unwrap().iter();
        let said: Vec<String> = said.map(|message| texts(&message["content"])).collect();
        assert_eq!(said, ["a", "h1", "yes", "b", "h2", "", "c", "h3", " yes\n", "d"]);
        assert_eq!(dialect.anchor(&user("yes")), None);
    }
}

#[test]
fn streams_say_all_that_the_answer_says() {
    let mut said = answer(&OpenAi, &[("own", json!({ "a": 1 }))], "text");
    said["choices"][0]["message"]["reasoning_content"] = "why".into();
    let second = json!({ "index": 1, "message": { "role": "assistant", "content": "other" }, "finish_reason": "length", "logprobs": { "x": 1 } });
    push(&mut said, "choices", second);
    said["citations"] = json!(["c"]);
    let wants = json!({ "stream_options": { "include_usage": true } });
    let events: String = OpenAi.events(said.clone(), &wants).collect();
    assert!(events.ends_with("data: [DONE]\n\n"));
    let chunks: Vec<Value> = events
        .split("\n\n")
        .filter_map(|e| serde_json::from_str(e.strip_prefix("data: ")?).ok())
        .collect();
    let finish = |index: u64| {
        let of = chunks
            .iter()
            .flat_map(|chunk| items(chunk, "choices"))
            .filter(move |c| c["index"] == index);
        of.filter_map(|choice| choice["finish_reason"].as_str()).collect::<Vec<_>>()
    };
    assert_eq!((finish(0), finish(1)), (vec!["tool_calls"], vec!["length"]));
    for said in [
        "\"reasoning_content\":\"why\"",
        "\"content\":\"other\"",
        "\"logprobs\":{\"x\":1}",
        "\"arguments\":\"{\\\"a\\\":1}\"",
    ] {
        assert!(events.contains(said), "{said} is not in {events}");
    }
    assert_eq!(chunks.last().unwrap()["usage"]["prompt_tokens"], 10);
    assert_eq!(chunks[0]["citations"], json!(["c"]), "what the host does not know is said once");
    assert!(chunks[1..].iter().all(|chunk| chunk.get("citations").is_none()));
    assert_eq!(chunks[0]["choices"][0]["delta"]["content"], "");
    said["choices"][0]["message"]["content"] = Value::Null;
    let begin = OpenAi.events(said.clone(), &json!({})).next().unwrap();
    assert!(begin.contains("\"content\":null"), "{begin}");
    assert!(!OpenAi.events(said, &json!({})).any(|event| event.contains("usage")));

    let mut said = answer(&Anthropic, &[("own", json!({ "a": 1 }))], "text");
    let blocks = said["content"].as_array_mut().unwrap();
    blocks.insert(0, json!({ "type": "thinking", "thinking": "hm", "signature": "s" }));
    blocks.push(json!({ "type": "redacted_thinking", "data": "d" }));
    blocks.push(json!({ "type": "of_tomorrow", "input": { "b": 2 } }));
    said["stop_details"] = json!({ "type": "refusal", "category": null });
    said["container"] = json!({ "id": "c" });
    let events: String = Anthropic.events(said, &json!({})).collect();
    for said in [
        "\"thinking_delta\"",
        "\"signature\":\"s\"",
        "\"text\":\"text\"",
        "{\\\"a\\\":1}",
        "\"data\":\"d\"",
        "\"input\":{\"b\":2}",
        "\"delta\":{\"container\":{\"id\":\"c\"},\"stop_details\":{\"category\":null,\"type\":\"refusal\"},\"stop_reason\":\"tool_use\"",
        "\"output_tokens\":2",
    ] {
        assert!(events.contains(said), "{said} is not in {events}");
    }
    assert!(events.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
}

/// An answer of thoughts, calls of several kinds and words.
fn thoughtful() -> Value {
    let thought = |id: &str| json!({ "type": "reasoning", "id": id, "summary": [{ "type": "summary_text", "text": "hm" }] });
    let call = |kind: &str, id: &str, name: &str| json!({ "type": kind, "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": "{}" });
    json!({ "id": "r", "status": "completed", "output": [
        thought("t1"), call("function_call", "c1", "svc_get"),
        thought("t2"), { "type": "computer_call", "id": "cu", "call_id": "c2", "action": {} },
        { "type": "web_search_call", "id": "ws" },
        thought("t3"), call("custom_tool_call", "c3", "own"),
    ]})
}

#[test]
fn items_of_a_response_go_back_with_their_thoughts_as_far_as_they_can_be_read() {
    let kinds = |store: bool, kept: usize| -> Vec<String> {
        let mut request = json!({ "input": [], "store": store });
        let mut said = thoughtful();
        let results = Responses.calls(&mut said, 1).into_iter().take(kept);
        let results: Vec<_> = results.map(|call| (call.id, json!({ "ok": true }))).collect();
        Responses.append(&mut request, &said, kept, &results);
        let all = request["input"].as_array().unwrap().iter();
        all.map(|item| item["id"].as_str().or_else(|| item["type"].as_str()).unwrap().to_owned())
            .collect()
    };
    assert_eq!(kinds(true, 1), ["t1", "fc_c1", "function_call_output"]);
    let [one, two] = ["function_call_output", "custom_tool_call_output"];
    assert_eq!(kinds(true, 3), ["t1", "fc_c1", "ws", "t3", "fc_c3", one, two]);
    assert_eq!(kinds(false, 3), ["fc_c1", "ws", "fc_c3", one, two]);
    let mut said = thoughtful();
    let names: Vec<String> = Responses.calls(&mut said, 1).into_iter().map(|c| c.name).collect();
    assert_eq!(names, ["svc_get", "computer", "own"]);
    // A thought stays with what came of it, and what was hidden comes before both.
    let user = json!({ "role": "user", "content": "a" });
    let mut request = json!({ "input": [user, said["output"][0], said["output"][1]] });
    let hidden = vec![json!({ "role": "user", "content": "h" })];
    let anchor = Responses.anchor(&Responses.message(&said)).unwrap();
    weave(&Responses, &mut request, vec![Kept { anchor, place: 1, hidden }]);
    assert_eq!(request["input"][1]["content"], "h");
}

#[test]
fn a_response_repeats_what_the_runner_asked_and_nothing_of_ours() {
    let mut request = json!({ "input": "hello", "tools": [], "tool_choice": { "type": "function", "name": "svc.get" } });
    let asked = request.clone();
    Responses.inject(&mut request, &Offers::new(vec![offer("svc.get")], Vec::new()));
    assert_eq!(request["input"], json!([{ "role": "user", "content": "hello" }]));
    assert_eq!(
        (&request["tool_choice"]["name"], &request["tools"][0]["strict"]),
        (&json!("svc_get"), &json!(false))
    );
    assert_eq!(conversation(&Responses, &request), conversation(&Responses, &asked));
    let mut said =
        json!({ "output": [], "tools": request["tools"], "tool_choice": "none", "x": 1 });
    Responses.deliver(&asked, &mut said);
    assert_eq!(
        said,
        json!({ "output": [], "tools": [], "tool_choice": asked["tool_choice"], "x": 1 })
    );
    assert!(Responses.unmediated(&json!({ "background": true })).unwrap().contains("background"));
    assert_eq!(Responses.unmediated(&json!({ "background": false })), None);
}

#[test]
fn a_response_streams_each_item_from_its_begin_to_its_end() {
    let mut said = thoughtful();
    let text = json!({ "type": "output_text", "text": "Done.", "annotations": [] });
    let message = json!({ "type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text, { "type": "refusal", "refusal": "no" }] });
    push(&mut said, "output", message);
    let events: Vec<String> = Responses.events(said.clone(), &json!({})).collect();
    let data = |event: &String| -> Value {
        serde_json::from_str(event.split_once("data: ").unwrap().1).unwrap()
    };
    let told: Vec<Value> = events.iter().map(data).collect();
    assert!(told.iter().zip(0..).all(|(event, number)| event["sequence_number"] == number));
    assert_eq!(
        (&told[0]["response"]["output"], &told[0]["type"]),
        (&json!([]), &json!("response.created"))
    );
    assert_eq!(told.last().unwrap()["response"], said);
    let kinds: Vec<&str> = told
        .iter()
        .filter(|event| event["output_index"] == 7)
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    let of = |part: &str, name: &str| {
        [
            format!("response.{part}.added"),
            format!("response.{name}.delta"),
            format!("response.{name}.done"),
            format!("response.{part}.done"),
        ]
    };
    let parts = ["output_text", "refusal"].map(|name| of("content_part", name)).concat();
    assert_eq!(
        kinds,
        [
            vec!["response.output_item.added".to_owned()],
            parts,
            vec!["response.output_item.done".to_owned()]
        ]
        .concat()
    );
    let all = events.concat();
    for said in [
        "function_call_arguments.delta",
        "reasoning_summary_part.added",
        "reasoning_summary_text.done",
        "\"content_index\":1",
        "\"summary_index\":0",
    ] {
        assert!(all.contains(said), "{said} is not in {all}");
    }
    set(&mut said, "status", "incomplete".into());
    assert!(
        Responses
            .events(said, &json!({}))
            .last()
            .unwrap()
            .starts_with("event: response.incomplete\n")
    );
    assert!(Responses.error_event(&Responses.error(502, "late")).contains("\"message\":\"late\""));
}

#[test]
fn each_kind_of_item_streams_under_the_names_that_clients_know_of_it() {
    let note = json!({ "type": "url_citation", "url": "http://x" });
    let part = json!({ "type": "output_text", "text": "Done.", "annotations": [note] });
    let thought = json!({ "type": "reasoning_text", "text": "deep" });
    let of = |item: Value| {
        let said = json!({ "id": "r", "status": "completed", "output": [item] });
        let events = Responses.events(said, &json!({})).skip(2);
        let told = |event: String| -> Value {
            serde_json::from_str(event.split_once("data: ").unwrap().1).unwrap()
        };
        let mut events: Vec<Value> = events.map(told).collect();
        events.pop();
        events
    };
    let names = |events: &[Value]| {
        let names = events.iter().map(|event| event["type"].as_str().unwrap());
        names.map(|name| name.strip_prefix("response.").unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (added, done) = ("output_item.added", "output_item.done");
    let call =
        of(json!({ "type": "mcp_call", "id": "i", "arguments": "{\"q\":1}", "output": "ok" }));
    let [first, last] = ["delta", "done"].map(|end| format!("mcp_call_arguments.{end}"));
    assert_eq!(names(&call), [added, &first, &last, done]);
    assert_eq!(
        (&call[0]["item"]["arguments"], &call[1]["delta"]),
        (&json!(""), &json!("{\"q\":1}"))
    );
    let approval = of(json!({ "type": "mcp_approval_request", "id": "i", "arguments": "{}" }));
    assert_eq!(names(&approval), [added, done]);
    assert_eq!(approval[0]["item"]["arguments"], "{}");
    let thoughts =
        of(json!({ "type": "reasoning", "id": "i", "summary": [], "content": [thought] }));
    let parts = ["content_part.added", "reasoning_text.delta", "reasoning_text.done"];
    assert_eq!(names(&thoughts)[1..4], parts);
    assert_eq!(thoughts[0]["item"]["content"], json!([]));
    let words = of(json!({ "type": "message", "id": "i", "content": [part] }));
    let noted = ["output_text.delta", "output_text.annotation.added", "output_text.done"];
    assert_eq!(names(&words)[2..5], noted);
    assert_eq!((&words[1]["part"]["annotations"], &words[3]["annotation"]), (&json!([]), &note));
    assert_eq!((&words[3]["annotation_index"], &words[5]["part"]), (&json!(0), &part));
}

#[test]
fn numbers_that_say_no_more_than_their_least_are_left_out_where_they_may_be() {
    let number = |least: Value| json!({ "type": "number", "minimum": least });
    let schema = json!({
        "type": "object", "required": ["page"],
        "properties": { "page": number(json!(1)), "limit": number(json!(0)), "rate": number(json!(0.5)), "free": { "type": "number" } },
    });
    let plain = Offers::new(vec![Offer { schema, ..offer("svc.get") }], Vec::new());
    let by = |offers: &Offers, name: &str, arguments: Value| {
        let (id, name) = (String::new(), name.to_owned());
        let mut call = ModelCall { id, name, arguments: Ok(arguments) };
        offers.prune(&mut call);
        call.arguments.unwrap()
    };
    let all = json!({ "page": 1, "limit": 0.0, "rate": 0.5, "free": 0, "other": 0 });
    assert_eq!(by(&plain, "svc_get", all.clone()), all);
    let offers = plain.pruning(true);
    let pruned = |name: &str, arguments: Value| by(&offers, name, arguments);
    assert_eq!(pruned("svc_get", all.clone()), json!({ "page": 1, "free": 0, "other": 0 }));
    assert_eq!(pruned("own", all.clone()), all);
    let said = json!({ "limit": 1, "rate": "0.5" });
    assert_eq!(pruned("svc_get", said.clone()), said);
}
