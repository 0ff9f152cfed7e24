//! What agents may spend through the proxy.

use clawhost_tests::proxied::OPENAI_PATH;
use clawhost_tests::{Cli, Model, Served};
use serde_json::{Value, json};

use crate::proxy::{manifest, program, says};

/// A folder in which `ada` may spend `limit_usd` at those prices.
fn prepared(model: &Model, prices: &str, limit_usd: u64) -> Cli {
    let cli = program();
    cli.write("claw.yaml", manifest(model));
    let runtime =
        format!("version: 1\nproviders: {{main: {{{prices}}}}}\nproxy: {{history: false}}\n");
    cli.write("clawhost.yaml", runtime);
    let budget = json!({ "limit_usd": limit_usd, "window": "24h" });
    let file = json!({ "version": 1, "tools": [], "budget": budget });
    cli.write("context/ada/tools.json", file.to_string());
    cli
}

/// Returns what a host answers to `ada`'s requests.
fn answers<const N: usize>(cli: &Cli, requests: [(&str, Value); N]) -> [(u16, String); N] {
    let served = Served::verb(cli, "proxy", &["claw.yaml", "--context", "context"]);
    let credentials = std::fs::read(cli.state().join("credentials.json")).unwrap();
    let credentials: Value = serde_json::from_slice(&credentials).unwrap();
    let key = format!("Bearer {}", credentials["agents"]["ada"].as_str().unwrap());
    let headers = [("content-type", "application/json"), ("authorization", &*key)];
    requests.map(|(path, body)| served.send("POST", path, &headers, &body.to_string()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_of_money_bounds_what_the_provider_reads_beside_the_request() {
    let model = Model::saying(says(OPENAI_PATH, &[("Hello.", &[])])).await;
    let cli = prepared(&model, "input_usd_per_million: 1", 1);
    let said = json!([{ "role": "user", "content": "hi" }]);
    let picture = json!([{ "type": "image_url", "image_url": { "url": "http://x/y.png" } }]);
    let messages = |more: Value| {
        let mut body = json!({ "model": "main", "messages": said });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        (OPENAI_PATH, body)
    };
    let kept = json!({ "model": "main", "input": "q", "prompt": { "id": "p" } });
    let all = [
        ("/v1/responses", kept),
        messages(json!({ "messages": [{ "role": "user", "content": picture }] })),
        messages(json!({ "n": 1e18 })),
        messages(json!({ "n": "9" })),
        messages(json!({ "max_tokens": 9, "max_completion_tokens": 8 })),
        ("/v1/responses", json!({ "model": "main", "input": 7 })),
        messages(json!({ "max_tokens": 5, "max_completion_tokens": null })),
    ];
    let answers = tokio::task::block_in_place(|| answers(&cli, all));
    let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [429, 429, 400, 400, 400, 400, 200], "{answers:?}");
    assert!(answers[0].1.contains("`max_context_window`"), "{answers:?}");
    assert_eq!(model.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_of_money_bounds_each_answer_and_outlives_the_host() {
    let model = Model::saying(says(OPENAI_PATH, &[("Hello.", &[])])).await;
    // A dollar a token; each answer has three of them.
    let cli = prepared(&model, "output_usd_per_million: 1000000", 6);
    let body = json!({ "model": "main", "messages": [{ "role": "user", "content": "hi" }] });
    let twice = || answers(&cli, [(); 2].map(|()| (OPENAI_PATH, body.clone())));
    let statuses = tokio::task::block_in_place(|| [twice(), twice()].concat());
    let said: Vec<u16> = statuses.iter().map(|(status, _)| *status).collect();
    assert_eq!(said, [200, 200, 429, 429], "{statuses:?}");
    assert!(statuses[2].1.contains("`limit_usd`"), "{statuses:?}");
    let lengths =
        model.asked().iter().map(|asked| asked.body["max_tokens"].clone()).collect::<Vec<_>>();
    assert_eq!(lengths, [6, 3]);
}
