//! What a client asks a provider for, and where the provider's protocol has that.

use clawhost_core::manifest::ProviderProtocol;
use http::Method;
use serde_json::Value;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Api {
    /// OpenAI's chat completions.
    Chat,
    /// The tokens of a prompt of Anthropic's, of which no completion is made.
    Count,
    /// Anthropic's messages.
    Messages,
    /// OpenAI's Responses.
    Responses,
    /// One of these that its provider keeps; there is no body.
    Stored(StoredCall),
}

/// What a client asks of an answer that its provider keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCall {
    /// What is to become of it.
    pub method: Method,
    /// The path that a client of this host asks.
    pub path: String,
    /// What is asked of it, as it came.
    pub query: String,
}

impl Api {
    const QUESTIONS: [Self; 4] = [Self::Chat, Self::Count, Self::Messages, Self::Responses];

    /// Returns what is asked for at `path` of a host.
    pub fn at(path: &str) -> Option<Self> {
        Self::QUESTIONS.into_iter().find(|api| api.path() == path)
    }

    /// Returns where a host answers it.
    pub fn path(&self) -> &str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Count => "/v1/messages/count_tokens",
            Self::Messages => "/v1/messages",
            Self::Responses => "/v1/responses",
            Self::Stored(stored) => &stored.path,
        }
    }

    pub(super) fn method(&self) -> Method {
        match self {
            Self::Stored(stored) => stored.method.clone(),
            _ => Method::POST,
        }
    }

    pub(super) fn query(&self) -> &str {
        match self {
            Self::Stored(stored) => &stored.query,
            _ => "",
        }
    }

    /// Says whether a model writes nothing for it.
    pub(super) const fn writes_nothing(&self) -> bool {
        matches!(self, Self::Count | Self::Stored(_))
    }

    /// Returns the protocol of those who can be asked for it.
    pub const fn protocol(&self) -> ProviderProtocol {
        match self {
            Self::Chat | Self::Responses | Self::Stored(_) => ProviderProtocol::OpenAi,
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

    /// Returns the path below a provider's endpoint, which names the version of OpenAI's protocol.
    pub(super) fn below(&self) -> &str {
        let path = self.path();
        match self.protocol() {
            ProviderProtocol::OpenAi => path.strip_prefix("/v1").unwrap_or(path),
            _ => path,
        }
    }

    /// Returns the key of a request that says how long the answer may be.
    pub(super) fn length_key(&self, body: &Value) -> &'static str {
        match self {
            Self::Responses => "max_output_tokens",
            _ if body.get("max_completion_tokens").is_some_and(|length| !length.is_null()) => {
                "max_completion_tokens"
            }
            _ => "max_tokens",
        }
    }

    /// Returns what the model wrote, in an answer that is one.
    pub(super) fn said<'v>(&self, answer: &'v Value) -> Option<&'v Value> {
        let (key, is_it): (_, fn(&Value) -> bool) = match self {
            Self::Chat => ("choices", Value::is_array),
            Self::Count => ("input_tokens", Value::is_u64),
            Self::Messages => ("content", Value::is_array),
            Self::Responses => ("output", Value::is_array),
            Self::Stored(_) => return Some(answer).filter(|answer| answer.is_object()),
        };
        answer.get(key).filter(|said| is_it(said))
    }
}
