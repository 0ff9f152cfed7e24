//! What a client asks a provider for, and where the provider's protocol has that.

use clawhost_core::manifest::ProviderProtocol;
use serde_json::Value;

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// OpenAI's chat completions.
    Chat,
    /// The tokens of a prompt of Anthropic's, of which no completion is made.
    Count,
    /// Anthropic's messages.
    Messages,
    /// OpenAI's Responses.
    Responses,
    /// One of these that its provider keeps.
    Stored,
}

impl Api {
    const QUESTIONS: [Self; 4] = [Self::Chat, Self::Count, Self::Messages, Self::Responses];

    /// Returns what is asked for at `path` of a host.
    pub fn at(path: &str) -> Option<Self> {
        Self::QUESTIONS.into_iter().find(|api| api.path() == path)
    }

    /// Returns where a host answers it.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Count => "/v1/messages/count_tokens",
            Self::Messages => "/v1/messages",
            Self::Responses | Self::Stored => "/v1/responses",
        }
    }

    /// Says whether a model writes nothing for it.
    pub(super) const fn writes_nothing(self) -> bool {
        matches!(self, Self::Count | Self::Stored)
    }

    /// Returns the protocol of those who can be asked for it.
    pub const fn protocol(self) -> ProviderProtocol {
        match self {
            Self::Chat | Self::Responses | Self::Stored => ProviderProtocol::OpenAi,
            Self::Count | Self::Messages => ProviderProtocol::Anthropic,
        }
    }

    /// Returns where providers of a protocol answer clients first of all.
    pub(super) const fn of(protocol: ProviderProtocol) -> Option<Self> {
        match protocol {
            ProviderProtocol::Anthropic => Some(Self::Messages),
            ProviderProtocol::OpenAi => Some(Self::Chat),
            ProviderProtocol::Custom => None,
        }
    }

    /// Returns the path below the endpoint, which names the version of OpenAI's protocol.
    pub(super) fn below(self, path: &str) -> &str {
        match self.protocol() {
            ProviderProtocol::OpenAi => path.strip_prefix("/v1").unwrap_or(path),
            _ => path,
        }
    }

    /// Returns the key of a request that says how long the answer may be.
    pub(super) fn length_key(self, body: &Value) -> &'static str {
        match self {
            Self::Responses => "max_output_tokens",
            _ if body.get("max_completion_tokens").is_some_and(|length| !length.is_null()) => {
                "max_completion_tokens"
            }
            _ => "max_tokens",
        }
    }

    /// Returns what the model wrote, in an answer that is one.
    pub(super) fn said(self, answer: &Value) -> Option<&Value> {
        let (key, is_it): (_, fn(&Value) -> bool) = match self {
            Self::Chat => ("choices", Value::is_array),
            Self::Count => ("input_tokens", Value::is_u64),
            Self::Messages => ("content", Value::is_array),
            Self::Responses => ("output", Value::is_array),
            Self::Stored => return Some(answer).filter(|answer| answer.is_object()),
        };
        answer.get(key).filter(|said| is_it(said))
    }
}
