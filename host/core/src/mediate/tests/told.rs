//! What a model is told of tools and of their results, and a client of the whole turn.

use serde_json::{Value, json};

use super::*;

#[test]
fn what_the_host_says_of_a_tool_names_it_as_the_model_was_shown_it() {
    for own in ["svc.get", "svc__get"] {
        let mut runner = Runner::new(&OpenAi, &["svc.get"], Policy::default());
        let details = Some(json!({ "tool": own, "rule": "svc__get" }));
        runner.result = refusal("timeout", Some(504), &format!("`{own}` did not end"), details);
        assert_eq!(runner.hear(&[("svc_get", json!({}))], "").unwrap(), Step::Ask);
        let told = runner.messages().pop().unwrap()["content"].as_str().unwrap().to_owned();
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["error"]["message"], "`svc_get` did not end");
        assert_eq!(told["error"]["details"], json!({ "tool": "svc_get", "rule": "svc__get" }));
    }
}

#[test]
fn what_was_cut_before_says_how_long_it_was_whatever_stood_around_and_beside_it() {
    let text = "ä\"".repeat(1_000);
    let value = json!({ "text": text });
    let said = ToolReply { content: vec![Content::Text(text.clone())], ..ToolReply::default() };
    let structured = ToolReply { structured: Some(value.clone()), ..ToolReply::default() };
    let long = "x".repeat(1_000);
    let enveloped = Some(json!({ "ok": true, "status_code": 200, "data": long }));
    let enveloped = ToolReply { structured: enveloped, ..ToolReply::default() };
    let list = Value::from((0..9_000).collect::<Vec<_>>());
    let listed = Some(json!({ "ok": true, "status_code": 200, "data": list }));
    let listed = ToolReply { structured: listed, is_envelope: true, ..ToolReply::default() };
    for (reply, is_enveloped, bytes) in [
        (said, false, text.len()),
        (structured, false, value.to_string().len()),
        (enveloped, true, long.len()),
        (listed, true, list.to_string().len()),
    ] {
        let reply = crate::truncate::reply(reply, 900);
        for bytes_max in [300, 5_000] {
            let cut = of_reply(&reply, is_enveloped, bytes_max);
            assert_eq!(cut["original_bytes"], json!(bytes), "{cut}");
            let is_whole = !is_enveloped || cut["status_code"] == 200;
            assert!(is_whole && !cut["data"].to_string().contains("status_code"), "{cut}");
        }
    }
}

#[test]
fn what_an_error_is_called_and_says_stays_where_its_details_are_long() {
    let details = json!({ "list": vec![1; 9_000] });
    let error = json!({ "code": "http_422", "message": "no", "details": details });
    let structured = Some(json!({ "ok": false, "status_code": 422, "error": error }));
    let reply = ToolReply { structured, is_error: true, is_envelope: true, ..ToolReply::default() };
    for reply in [reply.clone(), crate::truncate::reply(reply, 4_000)] {
        let cut = of_reply(&reply, true, 1_000);
        let error = &cut["error"];
        assert_eq!(cut["status_code"], 422);
        assert_eq!((&error["code"], &error["message"]), (&json!("http_422"), &json!("no")));
        assert!(error["details"].as_str().unwrap().starts_with("{\"list\":[1,1,"), "{cut}");
        assert_eq!(cut["original_bytes"], json!(details.to_string().len()));
        assert!(cut.to_string().len() < 1_100, "{cut}");
    }
}

#[test]
fn a_turn_that_a_tool_ended_is_no_message_to_an_api_that_takes_no_empty_one() {
    let mut ended = json!({ "role": "assistant", "content": [{ "type": "tool_use" }] });
    Anthropic.end(&mut ended);
    let [asked, next] = ["a", "b"].map(|text| json!({ "role": "user", "content": text }));
    let thought = json!({ "role": "assistant", "content": [{ "type": "thinking" }] });
    let silent = json!({ "role": "assistant", "content": "" });
    let mut request = json!({ "messages": [asked, ended, next, silent, thought] });
    Anthropic.inject(&mut request, &Offers::default());
    assert_eq!(request["messages"], json!([asked, next, thought]));
}

#[test]
fn a_choice_that_forces_a_call_of_ours_holds_for_one_round() {
    for dialect in DIALECTS {
        let named = |tool: &str| match dialect.name() {
            "openai" => json!({ "type": "function", "function": { "name": tool } }),
            "responses" => json!({ "type": "function", "name": tool }),
            _ => json!({ "type": "tool", "name": tool, "disable_parallel_tool_use": true }),
        };
        let is_anthropic = dialect.name() == "anthropic";
        let any = if is_anthropic { json!({ "type": "any" }) } else { json!("required") };
        for (choice, has_own, is_kept) in [
            (named("svc.get"), true, false),
            (any.clone(), false, false),
            (any, true, true),
            (named("own"), true, true),
        ] {
            let mut request = request(dialect);
            set(&mut request, "tool_choice", choice);
            if !has_own {
                set(&mut request, "tools", json!([]));
            }
            let mut runner = Runner::asking(dialect, request, &["svc.get"], Policy::default());
            let forced = runner.turn.request()["tool_choice"].clone();
            assert_eq!(runner.hear(&[("svc_get", json!({}))], "").unwrap(), Step::Ask);
            let mut left = if is_anthropic { json!({ "type": "auto" }) } else { json!("auto") };
            if forced.get("disable_parallel_tool_use").is_some() {
                set(&mut left, "disable_parallel_tool_use", true.into());
            }
            let expected = if is_kept { &forced } else { &left };
            assert_eq!(&runner.turn.request()["tool_choice"], expected);
        }
    }
}

#[test]
fn a_choice_that_forces_a_call_holds_until_one_was_made() {
    let choice = json!({ "type": "function", "name": "svc.get" });
    let mut request = request(&Responses);
    set(&mut request, "tool_choice", choice);
    let mut runner = Runner::asking(&Responses, request, &["svc.get"], Policy::default());
    runner.result = json!({ "ok": false, "status_code": 503 });
    let chosen = |runner: &Runner| runner.turn.request()["tool_choice"].clone();
    for unmade in [("svc_gett", json!({})), ("svc_get", json!("{\"cut"))] {
        assert_eq!(runner.hear(&[unmade], "").unwrap(), Step::Ask);
        assert!(runner.ran.is_empty());
        assert_eq!(chosen(&runner)["name"], "svc_get");
    }
    // What it came to does not matter.
    assert_eq!(runner.hear(&[("svc_get", json!({}))], "").unwrap(), Step::Ask);
    assert_eq!(chosen(&runner), "auto");
}

#[test]
fn a_choice_of_several_tools_is_renamed_and_freed_as_one_of_a_single_tool_is() {
    for dialect in [&OpenAi as &dyn Dialect, &Responses] {
        let is_chat = dialect.name() == "openai";
        let several = |mode: &str, names: [&str; 2]| {
            let tool = |name: &str| match is_chat {
                true => json!({ "type": "function", "function": { "name": name } }),
                false => json!({ "type": "function", "name": name }),
            };
            let mut of = json!({ "mode": mode, "tools": names.map(tool) });
            if is_chat {
                of = json!({ "allowed_tools": of });
            }
            set(&mut of, "type", "allowed_tools".into());
            of
        };
        let (ours, shown) = (["svc.get", "svc.put"], ["svc_get", "svc_put"]);
        let (mixed, shown_mixed) = (["svc.get", "own"], ["svc_get", "own"]);
        for (asked, forced, left) in [
            (several("required", ours), several("required", shown), several("auto", shown)),
            (several("auto", ours), several("auto", shown), several("auto", shown)),
            (
                several("required", mixed),
                several("required", shown_mixed),
                several("required", shown_mixed),
            ),
        ] {
            let mut request = request(dialect);
            set(&mut request, "tool_choice", asked);
            let mut runner = Runner::asking(dialect, request, &ours, Policy::default());
            assert_eq!(runner.turn.request()["tool_choice"], forced);
            assert_eq!(runner.hear(&[("svc_get", json!({}))], "").unwrap(), Step::Ask);
            assert_eq!(runner.turn.request()["tool_choice"], left);
        }
    }
}

#[test]
fn a_turn_has_acted_as_soon_as_a_call_is_begun_that_may_change_something() {
    let mut runner = Runner::new(&OpenAi, &["svc.get", "svc.put"], Policy::default());
    runner.hear(&[("svc_get", json!({}))], "").unwrap();
    assert!(!runner.turn.has_acted());
    runner.turn.hear(answer(&OpenAi, &[("svc_put", json!({}))], ""), 0).unwrap();
    assert!(!runner.turn.has_acted());
    runner.turn.job(0).unwrap().unwrap();
    assert!(runner.turn.has_acted());
    runner.turn.ran(json!({ "ok": false }), 1);
    assert!(runner.turn.job(0).unwrap().is_none() && runner.turn.has_acted());
}
