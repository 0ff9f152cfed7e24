//! `kind: Provider`: a language model endpoint.
//!
//! Every legal document loads, those too whose protocol, transport or authentication this version
//! does not speak: a Claw has to have a provider, and may never ask it. Using such a one fails.

use serde::Deserialize;

use super::node::Node;
use super::primitive::Document;
use super::problem::Problems;
use super::refs;
use super::shape::wrong_url;
use crate::quota::{Prices, ProviderLimits};
use crate::retry::RetryPlan;
use crate::uri::Kind;

/// What a manifest says about one provider. Names are resolved: fallbacks exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderPlan {
    /// Its name.
    pub name: String,
    /// What its endpoint understands.
    pub protocol: ProviderProtocol,
    /// The URL that the protocol's own paths are appended to.
    pub endpoint: String,
    /// The model that is asked.
    pub model: String,
    /// How the host shows who it is.
    pub auth: ProviderAuth,
    /// How much of it may be used.
    pub limits: ProviderLimits,
    /// What it costs; from the runtime file, never from a document.
    pub prices: Prices,
    /// Who is asked after it, in order.
    pub fallback: Vec<String>,
    /// How often it is asked when it fails for a passing reason.
    pub retry: RetryPlan,
    /// What in the document this version cannot do, so that the provider cannot be asked.
    pub unserved: Option<String>,
    /// `file:line`, for messages.
    pub at: String,
}

/// What a provider's endpoint understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderProtocol {
    /// Anthropic's messages.
    #[serde(rename = "anthropic-native")]
    Anthropic,
    /// Something of its own: not served.
    Custom,
    /// The chat completions of OpenAI, which many servers offer.
    #[serde(rename = "openai-compatible")]
    OpenAi,
}

table! {
    /// Returns its name, as documents have it.
    pub ProviderProtocol::name: &'static str {
        Anthropic: "anthropic-native", Custom: "custom", OpenAi: "openai-compatible",
    }
}

/// How the host shows a provider who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderAuth {
    /// The way.
    pub kind: ProviderAuthKind,
    /// The name of the secret; absent where none is needed.
    pub secret_ref: Option<String>,
}

/// The ways to show a provider who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderAuthKind {
    /// The secret in a header of its own, the protocol's (`x-api-key`, or `api-key`).
    ApiKeyHeader,
    /// `Authorization: Bearer`.
    Bearer,
    /// Nothing.
    None,
    /// A token that has to be fetched first: not served.
    #[serde(rename = "oauth2")]
    OAuth2,
}

/// Checks what the shape cannot say.
pub(crate) fn check(of: &Document, report: &mut Problems) {
    let spec = &of.spec;
    let endpoint = spec.text(&["endpoint"]).unwrap_or_default();
    // What this version does not speak may be reached otherwise.
    if unserved(spec).is_none()
        && let Some((is, help)) = wrong_url(endpoint)
    {
        report.url(spec.place(&["endpoint"]), endpoint, format!("`endpoint` {is}"), help);
    }
    for item in spec.list(&["fallback"]) {
        let to =
            item.text(&["provider_ref"]).and_then(|text| refs::local_name(text, Kind::Provider));
        if to.is_some_and(|to| to == of.name) {
            let help = "name another provider, or take it out";
            report.invalid(&item.at, "the provider falls back to itself", help);
        }
    }
}

/// Returns the plan that a checked document holds.
pub(crate) fn read(of: &Document) -> ProviderPlan {
    let spec = &of.spec;
    let text = |path: &[&str]| spec.text(path).unwrap_or_default().to_owned();
    ProviderPlan {
        name: of.name.clone(),
        protocol: protocol(spec),
        endpoint: text(&["endpoint"]),
        model: text(&["model"]),
        auth: ProviderAuth {
            kind: auth_kind(spec),
            secret_ref: spec.text(&["auth", "secret_ref"]).map(str::to_owned),
        },
        limits: spec.read(&["limits"]).unwrap_or_default(),
        prices: Prices::default(),
        fallback: fallback(spec),
        retry: spec.read(&["retry"]).unwrap_or_default(),
        unserved: unserved(spec),
        at: of.at.to_string(),
    }
}

impl ProviderPlan {
    /// Says that the provider cannot be asked, where that is so.
    pub(crate) fn note(&self) -> Option<String> {
        let Self { at, name, .. } = self;
        let why = self.unserved.as_ref()?;
        Some(format!("{at}: the provider `{name}` cannot be asked: {why}"))
    }
}

fn protocol(spec: &Node) -> ProviderProtocol {
    spec.read(&["protocol"]).unwrap_or(ProviderProtocol::Custom)
}

fn auth_kind(spec: &Node) -> ProviderAuthKind {
    spec.read(&["auth", "type"]).unwrap_or(ProviderAuthKind::OAuth2)
}

fn fallback(spec: &Node) -> Vec<String> {
    let named = spec.list(&["fallback"]).iter().filter_map(|item| item.text(&["provider_ref"]));
    named.filter_map(|text| refs::local_name(text, Kind::Provider)).collect()
}

fn unserved(spec: &Node) -> Option<String> {
    let transport = spec.text(&["transport"]).filter(|transport| *transport != "http");
    if protocol(spec) == ProviderProtocol::Custom {
        return Some("this version does not speak `protocol: custom`".to_owned());
    }
    if let Some(transport) = transport {
        return Some(format!("this version does not speak `transport: {transport}`"));
    }
    let oauth = auth_kind(spec) == ProviderAuthKind::OAuth2;
    oauth.then(|| "this version fetches no tokens (`auth.type: oauth2`)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tests::document;
    use super::*;
    use crate::retry::Backoff;

    fn plan(spec: &str) -> ProviderPlan {
        read(&document("Provider", spec))
    }

    #[test]
    fn everything_a_document_says_is_read() {
        let plan = plan(
            "{protocol: openai-compatible, endpoint: https://a.test/v1, model: m, \
             auth: {type: bearer, secret_ref: KEY}, \
             limits: {tokens_per_day: 0, tokens_per_request: 2, requests_per_minute: 3, \
             max_context_window: 4}, \
             fallback: [{provider_ref: b}, {provider_ref: 'claw://provider/c'}], \
             retry: {max_attempts: 7, backoff: linear, initial_delay_ms: 5}}",
        );
        assert_eq!((plan.name.as_str(), plan.model.as_str()), ("n", "m"));
        assert_eq!(plan.protocol, ProviderProtocol::OpenAi);
        assert_eq!(plan.auth.kind, ProviderAuthKind::Bearer);
        assert_eq!(plan.auth.secret_ref.as_deref(), Some("KEY"));
        let ProviderLimits {
            tokens_per_day,
            tokens_per_request,
            requests_per_minute,
            max_context_window,
        } = plan.limits;
        let limits = [tokens_per_day, tokens_per_request, requests_per_minute, max_context_window];
        assert_eq!(limits, [Some(0), Some(2), Some(3), Some(4)]);
        assert_eq!(plan.fallback, ["b", "c"]);
        let (backoff, initial_delay_ms) = (Backoff::Linear, 5);
        let retry =
            RetryPlan { max_attempts: 7, backoff, initial_delay_ms, ..RetryPlan::default() };
        assert_eq!(plan.retry, retry);
        assert_eq!(plan.unserved, None);
    }

    #[test]
    fn what_this_version_does_not_speak_loads_and_says_so() {
        for (spec, why) in [
            ("protocol: custom, auth: {type: none}", "`protocol: custom`"),
            (
                "protocol: openai-compatible, auth: {type: oauth2, secret_ref: K}",
                "`auth.type: oauth2`",
            ),
            (
                "protocol: anthropic-native, auth: {type: none}, transport: websocket",
                "`transport: websocket`",
            ),
        ] {
            let plan = plan(&format!("{{{spec}, endpoint: x, model: m}}"));
            assert!(plan.unserved.as_ref().is_some_and(|said| said.contains(why)), "{plan:?}");
            assert!(plan.note().is_some_and(|note| note.starts_with("d.yaml:")));
        }
        let plan = plan(
            "{protocol: anthropic-native, auth: {type: none}, endpoint: 'http://a.test', model: m}",
        );
        assert_eq!((plan.unserved, plan.retry), (None, RetryPlan::default()));
    }
}
