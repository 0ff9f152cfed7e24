//! A tool that asks a language model: its profile needs `provider: true` in `clawhost.yaml`.

use claw_tool::{Text, ToolError, provider};
use serde_json::{Value, json};

/// What a summary may cost.
const SUMMARY_TOKENS_MAX: u32 = 300;

/// Arguments of `summarize`.
#[claw_tool::input]
struct Summarize {
    /// The text to summarise.
    text: String,
}

fn summarize(args: &Summarize) -> Result<Text, ToolError> {
    let request = json!({
        "messages": [
            { "role": "system", "content": "Summarise the user's text in three sentences." },
            { "role": "user", "content": args.text },
        ],
        "max_tokens": SUMMARY_TOKENS_MAX,
    });
    let answer = provider::complete(&request.to_string())?;
    summary(&answer).map(Text)
}

fn summary(answer: &str) -> Result<String, ToolError> {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let text = answer.pointer("/choices/0/message/content").and_then(Value::as_str);
    let missing = || ToolError::failed("the model answered without text");
    text.map(str::to_owned).ok_or_else(missing)
}

claw_tool::export! {
    /// Summarises a text in three sentences.
    summarize [read_only, open_world],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_the_first_choice() {
        let answer = r#"{"choices":[{"message":{"content":"short"}}]}"#;
        assert_eq!(summary(answer).ok().as_deref(), Some("short"));
        assert!(summary("{}").is_err());
    }
}
