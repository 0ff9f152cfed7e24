//! `channels` and `profiles.<name>.channels`: where messages may go.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::Settings;
use super::reader::Reader;
use crate::limits::CHANNELS_MAX;
use crate::manifest::node::{Entry, Node};
use crate::manifest::problem::{Problems, choices};
use crate::manifest::shape::{shown, wrong_name};

/// One of `channels`: somewhere messages may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelSettings {
    /// Where.
    pub to: ChannelPlace,
    /// The name of the secret that a webhook gets as a bearer token.
    pub secret: Option<String>,
}

/// Where the messages of a channel go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelPlace {
    /// Lines of JSON on standard error.
    Console,
    /// Lines of JSON in a file.
    File(PathBuf),
    /// A server that takes one JSON object a message at this URL.
    Webhook(String),
}

impl Reader {
    pub(super) fn take_channels(&mut self, channels: &Node) -> BTreeMap<String, ChannelSettings> {
        if channels.entries().len() > CHANNELS_MAX {
            self.refuse(&channels.at, format!("more than {CHANNELS_MAX} channels"), "name fewer");
            return BTreeMap::new();
        }
        let read = |entry: &Entry| Some((entry.key.clone(), self.take_channel(entry)?));
        channels.entries().iter().filter_map(read).collect()
    }

    fn take_channel(&mut self, entry: &Entry) -> Option<ChannelSettings> {
        let (name, node) = (&entry.key, &entry.node);
        if let Some((reason, help)) = wrong_name(name) {
            self.refuse(&entry.at, reason, help);
        }
        let console = node.flag(&["console"]).unwrap_or(false);
        let to = match (console, self.path(node.below("file")), node.text(&["webhook"])) {
            (true, None, None) => ChannelPlace::Console,
            (false, Some(path), None) => ChannelPlace::File(path),
            (false, None, Some(url)) => ChannelPlace::Webhook(url.to_owned()),
            _ => {
                let reason = format!("the channel `{}` does not go to one place", shown(name));
                let help = "write one of `file: PATH`, `webhook: URL` and `console: true`";
                self.refuse(&entry.at, reason, help);
                return None;
            }
        };
        let secret: Option<String> = node.read(&["secret"]);
        if secret.is_some() && !matches!(to, ChannelPlace::Webhook(_)) {
            let at = node.place(&["secret"]);
            self.refuse(at, "only a webhook is sent a secret", "leave `secret` out");
        }
        Some(ChannelSettings { to, secret })
    }
}

impl Settings {
    /// Reports channels that a profile names and nobody declares.
    pub(super) fn check_channels(&self, problems: &mut Problems) {
        let declared: BTreeSet<&str> = self.channels.keys().map(String::as_str).collect();
        for profile in self.profiles.values() {
            for name in profile.channels.iter().filter(|name| !declared.contains(name.as_str())) {
                let reason = format!("there is no channel `{}`", shown(name));
                let help = match declared.is_empty() {
                    true => "declare it under `channels`".to_owned(),
                    false => choices(name, declared.iter().copied()),
                };
                problems.missing(&profile.at, reason, help);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::read_body;
    use super::*;

    #[test]
    fn a_channel_goes_to_one_place() {
        let settings = read_body(
            "channels:\n  a: {file: ./m.jsonl}\n  b: {webhook: \"https://x.example/in\", secret: HOOK}\n  c: {console: true}",
            &[],
        );
        let channels = settings.unwrap().channels;
        assert_eq!(channels["a"].to, ChannelPlace::File("conf/m.jsonl".into()));
        assert_eq!(channels["b"].to, ChannelPlace::Webhook("https://x.example/in".to_owned()));
        assert_eq!(channels["b"].secret.as_deref(), Some("HOOK"));
        assert_eq!(channels["c"].to, ChannelPlace::Console);
        for (channel, says) in [
            ("a: {}", "one place"),
            ("a: {console: false}", "one place"),
            ("a: {console: true, file: x}", "one place"),
            ("a: {webhook: \"https://user:hunter2@x.example\"}", "has a user name"),
            ("a: {webhook: x.example}", "has no scheme"),
            ("a: {file: x, secret: HOOK}", "only a webhook"),
            ("a: {webhook: \"https://x.example\", secret: \"no such\"}", "no name of a secret"),
            ("\"a b\": {file: x}", "not allowed"),
            ("a: {slack: x}", "slack"),
        ] {
            let error = read_body(&format!("channels:\n  {channel}"), &[]).unwrap_err();
            assert!(error.contains(says) && !error.contains("hunter2"), "{channel}: {error}");
        }
    }
}
