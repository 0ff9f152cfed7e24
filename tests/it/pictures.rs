//! Requests to the proxy with more than words in them.

use clawhost_tests::Proxied;
use clawhost_tests::proxied::{ALL, OPENAI_PATH, request};
use serde_json::json;

use crate::proxy::{NOTHING, says};

#[tokio::test]
async fn a_request_may_have_pictures_in_it() {
    let url = format!("data:image/png;base64,{}", "A".repeat(6_000_000));
    for rules in [ALL, NOTHING] {
        let proxied = Proxied::new(rules, says(OPENAI_PATH, &[("A cat.", &[])])).await;
        let mut body = request(OPENAI_PATH, "What is it?");
        body["messages"] = json!([
            { "role": "user", "content": [{ "type": "image_url", "image_url": { "url": url } }] },
        ]);
        let got = proxied.post(OPENAI_PATH, &body.to_string()).await;
        assert_eq!(got.status, 200, "{got:?}");
        assert_eq!(proxied.model.asked()[0].body["messages"], body["messages"]);
    }
}
