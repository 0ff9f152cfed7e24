use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::limits::TOOL_OUTPUT_BYTES_MAX;
use crate::manifest::Place;
use crate::manifest::problem::MANIFEST_INVALID;
use crate::reply::{Content, ToolReply};

fn source(text: &str) -> Mapping {
    let earlier = ["fetch", "b", "c"].map(str::to_owned);
    Source::read(text, &earlier)
        .unwrap()
        .map_or_else(|| Mapping::Literal(text.into()), Mapping::Source)
}

fn step(tool: &str, arguments: Mapping, key: &str) -> Step {
    let at = Place::default();
    let tool = tool.to_owned();
    Step { tool, arguments, key: key.to_owned(), max_attempts: None, timeout: None, at }
}

fn composite(steps: Vec<Step>) -> Composite {
    Composite {
        name: "a".to_owned(),
        description: None,
        input_schema: None,
        timeout: Duration::ZERO,
        steps,
        file: String::new(),
        digest: String::new(),
    }
}

fn calls(tools: &[&str]) -> Arc<Composite> {
    let none = || Mapping::Object(Vec::new());
    Arc::new(composite(tools.iter().map(|tool| step(tool, none(), "k")).collect()))
}

#[test]
fn paths_start_at_what_is_there_and_texts_that_look_like_one_are_not_guessed_at() {
    let earlier = ["fetch".to_owned()];
    let read = |text| Source::read(text, &earlier);
    for text in ["input", "input.a.0", "fetch", "fetch.body", "step_1", "step_1.x"] {
        assert!(read(text).unwrap().is_some(), "{text}");
    }
    for text in
        ["", "GET", "a b.c", "https://x.example/a", "3.14", ".a", "out/a.txt", "step_", "in"]
    {
        assert_eq!(read(text), Ok(None), "{text}");
    }
    for text in
        ["fetched.body", "report.txt", "step_2", "step_0", "step_2.x", "step_99999999999999999999"]
    {
        assert!(read(text).unwrap_err().contains("is no source here"), "{text}");
    }
    for text in ["input.", "fetch..a"] {
        assert!(read(text).unwrap_err().contains("empty part"), "{text}");
    }
}

#[test]
fn a_key_is_a_word_that_means_nothing_else() {
    for key in ["a", "_x1", "steps", "step_", "step_x", "inputs"] {
        assert!(is_key(key), "{key}");
    }
    for key in ["", "input", "step_1", "step_007", "a-b", "a.b", "1a", "ä"] {
        assert!(!is_key(key), "{key}");
    }
}

#[test]
fn arguments_are_made_of_literals_and_paths_and_what_is_missing_is_named() {
    let (input, outputs) = (json!({"n": [1, {"k": null}]}), [Some(json!({"body": "b"})), None]);
    let object = Mapping::Object(vec![
        ("url".to_owned(), source("input.n.0")),
        ("list".to_owned(), Mapping::List(vec![source("fetch.body"), source("input.n.1.k")])),
        ("whole".to_owned(), source("step_1")),
        ("text".to_owned(), Mapping::Literal("input.n".into())),
    ]);
    assert_eq!(
        object.resolve(&input, &outputs),
        Ok(json!({"url": 1, "list": ["b", null], "whole": {"body": "b"}, "text": "input.n"}))
    );
    assert_eq!(object.steps(), [0, 0]);
    for missing in ["input.m", "input.n.2", "fetch.body.x", "step_2", "b.value"] {
        let list = Mapping::List(vec![source(missing)]);
        assert_eq!(
            list.resolve(&input, &outputs),
            Err(Unmade::Missing(missing.to_owned())),
            "{missing}"
        );
    }
}

#[test]
fn what_is_named_often_is_counted_each_time_before_it_is_copied() {
    let input = json!({"text": "x".repeat(TOOL_OUTPUT_BYTES_MAX / 3)});
    let times = |n| Mapping::List(vec![source("input.text"); n]).resolve(&input, &[]);
    assert!(times(2).is_ok());
    assert_eq!(times(3).unwrap_err(), Unmade::TooLarge);
    assert_eq!(times(100_000).unwrap_err(), Unmade::TooLarge);
}

#[test]
fn an_output_is_an_object_whatever_the_tool_answers() {
    let text = |text: &str| ToolReply {
        content: vec![Content::Text(text.to_owned())],
        ..ToolReply::default()
    };
    let structured = |value| ToolReply { structured: Some(value), ..text("{\"no\": 1}") };
    for (reply, expected) in [
        (structured(json!({"a": 1})), json!({"a": 1})),
        (structured(json!([1])), json!({"value": [1]})),
        (structured(json!(null)), json!({"value": null})),
        (text("{\"a\": 1}"), json!({"a": 1})),
        (text("[1]"), json!({"value": [1]})),
        (text("{broken"), json!({"value": "{broken"})),
        (text("plain"), json!({"value": "plain"})),
        (ToolReply::default(), json!({"value": ""})),
    ] {
        assert_eq!(output(reply), expected);
    }
    let two = ToolReply {
        content: vec![Content::Text("1".into()), Content::Text("2".into())],
        ..ToolReply::default()
    };
    assert_eq!(output(two), json!({"value": "1\n2"}));
}

#[test]
fn the_result_is_the_last_step_s_beside_those_before_it_as_far_as_there_is_room() {
    let nothing = || Mapping::Object(Vec::new());
    let three = ["x", "y", "z"].map(|key| step("t", nothing(), key));
    let three = composite(three.into());
    let outputs = || vec![(json!({"a": 1}), 50), (json!({"b": 2}), 20), (json!({"c": 3}), 30)];
    assert_eq!(
        three.result(outputs(), 100),
        json!({"result": {"c": 3}, "steps": {"x": {"a": 1}, "y": {"b": 2}}})
    );
    assert_eq!(
        three.result(outputs(), 60),
        json!({"result": {"c": 3}, "steps": {"y": {"b": 2}}, "left_out": ["x"]})
    );
    assert_eq!(three.result(outputs(), 1)["result"], json!({"c": 3}));
}

#[test]
fn only_reading_steps_that_need_nothing_of_each_other_run_beside_each_other() {
    let waves = |steps: &[(&str, &str)]| {
        let made = steps.iter().enumerate().map(|(index, (tool, from))| {
            step(tool, source(from), ["fetch", "b", "c", "d", "e"][index])
        });
        composite(made.collect()).waves(|step| step.tool == "read")
    };
    assert_eq!(
        waves(&[("read", ""), ("read", "input"), ("read", "step_1")]),
        [vec![0, 1], vec![2]]
    );
    // What writes keeps the order it was written in, on both sides.
    assert_eq!(
        waves(&[("read", ""), ("write", ""), ("read", ""), ("read", ""), ("write", "")]),
        [vec![0], vec![1], vec![2, 3], vec![4]]
    );
    assert_eq!(waves(&[("write", ""), ("write", "")]), [vec![0], vec![1]]);
    assert_eq!(
        waves(&[("read", ""), ("read", "fetch"), ("read", ""), ("write", ""), ("read", "fetch")]),
        [vec![0, 2], vec![1], vec![3], vec![4]]
    );
}

#[test]
fn what_calls_itself_is_too_deep_too_long_or_unknown_is_refused_before_it_runs() {
    let tools = [
        ("plain", None),
        ("a", Some(calls(&["plain"]))),
        ("one", Some(calls(&["plain"]))),
        ("two", Some(calls(&["plain", "one"]))),
        ("three", Some(calls(&["two"]))),
        ("ring", Some(calls(&["plain", "a"]))),
        ("many", Some(calls(&["plain"; 16]))),
        ("more", Some(calls(&["many"; 16]))),
    ];
    let find = |name: &str| {
        let (name, composite) = tools.iter().find(|(of, _)| *of == name)?;
        Some(Called { name: (*name).to_owned(), composite: composite.clone() })
    };
    let check = |steps: &[&str], bounds| calls(steps).check("a", bounds, &find);
    let default = CompositeBounds::default();
    assert_eq!(check(&["plain", "three"], default), Ok(()));
    let fault = |steps: &[&str], bounds| {
        let fault = check(steps, bounds).unwrap_err();
        (fault.step, fault.limit, fault.reason)
    };
    let narrow = CompositeBounds { depth_max: 2, ..default };
    assert_eq!(fault(&["one", "two"], narrow).0, 1);
    assert_eq!(fault(&["one", "two"], narrow).1, "composites.max_depth");
    assert_eq!(fault(&["a"], default).1, "cycle");
    let (step, limit, reason) = fault(&["plain", "ring"], default);
    assert_eq!((step, limit, reason.as_str()), (1, "cycle", "`a` calls itself: a > ring"));
    assert_eq!(fault(&["gone"], default).2, "no tool is called `gone`");
    assert_eq!(fault(&["plain"; 17], default).1, "composites.max_steps");
    assert_eq!(fault(&["more"], default).1, "NESTED_CALLS_MAX");
}

#[test]
fn a_tool_s_name_is_read_as_catalogs_read_it() {
    for (text, name) in [
        ("read_file", "read-file"),
        ("claw://local/tool/read-file", "read-file"),
        ("claw://local/tool/read-file@1.0.0", "read-file"),
        ("claw://registry/team/read-file@1.0.0", "read-file"),
        ("claw://tool/read-file", "claw://tool/read-file"),
        ("claw://local/skill/a", "claw://local/skill/a"),
    ] {
        assert_eq!(local_name(text), name);
    }
}

#[test]
fn arguments_that_a_tool_never_takes_are_problems_of_their_step() {
    let closed = json!({
        "properties": {"text": {}, "limit": {}}, "required": ["text"], "additionalProperties": false,
    });
    let open = json!({"properties": {"text": {}}, "required": ["text"]});
    let named = json!({
        "properties": {}, "patternProperties": {"^x-": {}}, "additionalProperties": false,
    });
    let given = |names: &[&str]| {
        let entries = names.iter().map(|name| ((*name).to_owned(), source("input")));
        Mapping::Object(entries.collect())
    };
    let wrong = |schema: &Value, names: &[&str]| {
        let problems = composite(vec![step("t", given(names), "k")]).unfit(|_| Some(schema));
        // The tool is there: what it is given is wrong.
        assert!(problems.iter().all(|one| one.code == MANIFEST_INVALID), "{problems:?}");
        problems.first().map(|one| format!("{one} ({})", one.help.clone().unwrap_or_default()))
    };
    assert_eq!(wrong(&closed, &["text", "limit"]), None);
    let near = "`t` has no argument `tex` (did you mean `text`? possible here: limit, text)";
    assert_eq!(wrong(&closed, &["tex"]).as_deref(), Some(near));
    let lacks = "`t` is given no argument `text` (add `text` to `arg_mapping`)";
    assert_eq!(wrong(&closed, &["limit"]).as_deref(), Some(lacks));
    assert_eq!(wrong(&open, &["other"]).as_deref(), Some(lacks));
    assert_eq!(wrong(&open, &["other", "text"]), None);
    assert_eq!(wrong(&named, &["x-a"]), None);
    assert!(composite(vec![step("t", given(&["a"]), "k")]).unfit(|_| None).is_empty());
}
