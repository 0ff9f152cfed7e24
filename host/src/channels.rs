//! Messages to the channels that the operator declares: one queue and one worker each.
//!
//! Who sends does not wait; a channel that does not take a message is tried again for a while, and
//! what is lost then is logged. Deliberately absent: messages that come back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::limits::{
    CHANNEL_CHAT_ID_BYTES_MAX, CHANNEL_MESSAGE_BYTES_MAX, CHANNEL_QUEUE_MAX, CHANNEL_RETRIES_MAX,
    CHANNEL_RETRY_MS, CHANNEL_SEND_MS,
};
use clawhost_core::manifest::{ChannelPlace, ChannelSettings};
use serde_json::{Value, json};

use crate::clock::{now_ms, rfc3339};
use crate::outbox::{Carrier, Failure, Outbox, Terms};
use crate::place::OutsidePlace;
use crate::random;
use crate::secrets::Secrets;
use crate::upstream::http::HttpClient;
use crate::upstream::post::Poster;

const TERMS: Terms = Terms {
    queue_max: CHANNEL_QUEUE_MAX,
    // One at a time: a server gets one message a request, and is sent none twice for another's sake.
    batch_max: 1,
    interval: Duration::ZERO,
    hands_over_empty: false,
    patience: Duration::from_millis(CHANNEL_SEND_MS),
    retries_max: CHANNEL_RETRIES_MAX,
    flush_retries_max: 0,
    retry: Duration::from_millis(CHANNEL_RETRY_MS),
    retry_max: Duration::from_millis(CHANNEL_SEND_MS),
};

/// The channels of one host. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Channels(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    outboxes: BTreeMap<String, Outbox<String>>,
    secrets: Secrets,
}

/// Why a message was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsent {
    /// There is no such channel, or it is not granted; the text names those that are.
    Unknown(String),
    /// It is too long, or too many wait.
    OverLimit(String),
}

/// What is sent, and for whom.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The channel's name.
    pub channel: &'a str,
    /// The conversation in it.
    pub chat_id: &'a str,
    /// The text.
    pub content: &'a str,
    /// Who called the tool.
    pub agent: &'a str,
    /// The tool.
    pub tool: &'a str,
}

impl Channels {
    /// Starts a worker for each of `declared`, on the runtime of the caller. Nothing is connected
    /// to or opened yet.
    pub fn start(
        declared: &BTreeMap<String, ChannelSettings>,
        client: &HttpClient,
        secrets: &Secrets,
    ) -> Self {
        let start = |(name, settings): (&String, &ChannelSettings)| match place(
            settings, client, secrets,
        ) {
            Ok(place) => Some((name.clone(), Outbox::start(ToChannel(place), TERMS))),
            // Settings were checked: a channel less is no reason to be without a host.
            Err(failure) => {
                tracing::warn!(channel = name, "it is left out: {}", failure.reason);
                None
            }
        };
        let outboxes = declared.iter().filter_map(start).collect();
        Self(Arc::new(Inner { outboxes, secrets: secrets.clone() }))
    }

    /// Returns no channels.
    pub fn none() -> Self {
        Self(Arc::new(Inner { outboxes: BTreeMap::new(), secrets: Secrets::none() }))
    }

    /// Takes a message for one of `granted`, without its secrets.
    ///
    /// # Errors
    /// [`Unsent`].
    pub fn send(&self, granted: &BTreeSet<String>, message: Message<'_>) -> Result<(), Unsent> {
        let outbox =
            self.0.outboxes.get(message.channel).filter(|_| granted.contains(message.channel));
        let Some(outbox) = outbox else {
            let names: Vec<String> = granted.iter().map(|name| format!("`{name}`")).collect();
            let text = format!("there is no such channel; there are: {}", names.join(", "));
            return Err(Unsent::Unknown(text));
        };
        for (what, text, most) in [
            ("content", message.content, CHANNEL_MESSAGE_BYTES_MAX),
            ("chat_id", message.chat_id, CHANNEL_CHAT_ID_BYTES_MAX),
        ] {
            if text.len() > most {
                let text = format!("`{what}` has {} bytes; the most is {most}", text.len());
                return Err(Unsent::OverLimit(text));
            }
        }
        if outbox.put(self.to_json(message).to_string()) {
            return Ok(());
        }
        let text = format!("{CHANNEL_QUEUE_MAX} messages wait for this channel; try again later");
        Err(Unsent::OverLimit(text))
    }

    /// Hands over what waits; what no channel takes within `patience` is lost.
    pub async fn flush(&self, patience: Duration) {
        let all = futures_util::future::join_all(self.0.outboxes.values().map(Outbox::flush));
        if tokio::time::timeout(patience, all).await.is_err() {
            tracing::warn!(
                "messages to channels were not handed over in time; what was left is lost"
            );
        }
    }

    fn to_json(&self, message: Message<'_>) -> Value {
        let Message { channel, chat_id, content, agent, tool } = message;
        // A message that was tried again may come twice: its id tells, where the system has
        // random numbers.
        let id = random::uuid().unwrap_or_default();
        self.0.secrets.redactor().json(json!({
            "id": id, "time": rfc3339(now_ms()), "channel": channel, "chat_id": chat_id,
            "content": content, "agent": agent, "tool": tool,
        }))
    }
}

fn place(
    settings: &ChannelSettings,
    client: &HttpClient,
    secrets: &Secrets,
) -> Result<OutsidePlace, Failure> {
    Ok(match &settings.to {
        ChannelPlace::Console => OutsidePlace::console(),
        ChannelPlace::File(path) => OutsidePlace::file(path.clone()),
        ChannelPlace::Webhook(url) => {
            OutsidePlace::WebhookOfOne(Poster::new(client, url, settings.secret.as_ref(), secrets)?)
        }
    })
}

struct ToChannel(OutsidePlace);

impl Carrier for ToChannel {
    type Item = String;

    fn name(&self) -> String {
        format!("a channel's way to {}", self.0.name())
    }

    async fn take(&mut self, messages: &[String]) -> Result<(), Failure> {
        self.0.write(messages).await
    }

    fn lost(&self, count: u64) {
        tracing::warn!(count, "messages are lost: {} did not take them", self.0.name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn message<'a>(channel: &'a str, content: &'a str) -> Message<'a> {
        Message { channel, chat_id: "room", content, agent: "me", tool: "message" }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn to_file(secrets: &Secrets) -> (tempfile::TempDir, Channels) {
        let folder = tempfile::tempdir().unwrap();
        let to = ChannelPlace::File(folder.path().join("m.jsonl"));
        let declared = ["ops", "other"]
            .map(|name| (name.to_owned(), ChannelSettings { to: to.clone(), secret: None }));
        let channels = Channels::start(&declared.into(), &HttpClient::system(), secrets);
        (folder, channels)
    }

    fn written(folder: &tempfile::TempDir) -> Vec<Value> {
        let text = std::fs::read_to_string(folder.path().join("m.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[tokio::test]
    async fn a_message_arrives_in_order_with_who_sent_it_and_without_secrets() {
        let secrets =
            Secrets::of_environment(|name| (name == "KEY").then(|| "hunter2-hunter2".into()));
        secrets.learn(["KEY"]);
        let (folder, channels) = to_file(&secrets);
        for content in ["one", "the key is hunter2-hunter2"] {
            channels.send(&names(&["ops"]), message("ops", content)).unwrap();
        }
        channels.flush(PATIENCE).await;
        let [one, two] = written(&folder).try_into().unwrap();
        assert_eq!(
            (&one["content"], &one["chat_id"], &one["agent"]),
            (&json!("one"), &json!("room"), &json!("me"))
        );
        assert_ne!(one["id"], two["id"]);
        assert!(!two.to_string().contains("hunter2"), "{two}");
    }

    #[tokio::test]
    async fn only_a_granted_channel_is_reached_and_an_error_names_those() {
        let (folder, channels) = to_file(&Secrets::none());
        for channel in ["other", "nowhere", "", "../ops", "OPS"] {
            let Err(Unsent::Unknown(why)) = channels.send(&names(&["ops"]), message(channel, "x"))
            else {
                panic!("{channel} is reached");
            };
            assert!(why.contains("`ops`") && !why.contains("other"), "{why}");
        }
        let granted = channels.send(&names(&["nowhere"]), message("nowhere", "x"));
        assert!(granted.is_err(), "a grant alone is no channel");
        channels.flush(PATIENCE).await;
        assert!(written(&folder).is_empty());
    }

    #[tokio::test]
    async fn what_is_too_long_or_too_much_is_refused() {
        let (_folder, channels) = to_file(&Secrets::none());
        let granted = names(&["ops"]);
        let long = "x".repeat(CHANNEL_MESSAGE_BYTES_MAX + 1);
        let over = |sent| matches!(sent, Err(Unsent::OverLimit(_)));
        assert!(over(channels.send(&granted, message("ops", &long))));
        let chat_id = &long[..=CHANNEL_CHAT_ID_BYTES_MAX];
        assert!(over(channels.send(&granted, Message { chat_id, ..message("ops", "x") })));
        // The worker has no turn before this test waits for something.
        for _ in 0..CHANNEL_QUEUE_MAX {
            channels.send(&granted, message("ops", "x")).unwrap();
        }
        assert!(over(channels.send(&granted, message("ops", "x"))));
    }
}
