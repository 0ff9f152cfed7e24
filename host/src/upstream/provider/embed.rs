//! Vectors of texts, for whoever compares texts by what they mean.
//!
//! Deliberately absent: fallbacks. Vectors of different models do not compare.

use std::time::Instant;

use clawhost_core::error::{CallError, ErrorKind};

use super::attempt::{Failure, Sent};
use super::chain::unavailable;
use super::wire::Wire;
use super::{Caller, Providers, openai};

/// What is to become vectors.
#[derive(Debug, Clone, Copy)]
pub struct Embed<'a> {
    /// The provider that is asked, and no other.
    pub provider: &'a str,
    /// Its model.
    pub model: &'a str,
    /// The texts; the caller bounds them.
    pub texts: &'a [String],
}

/// Why there are no vectors.
#[derive(Debug)]
pub struct EmbedError {
    /// For the caller.
    pub error: CallError,
    /// The provider refuses these texts, and would again.
    pub is_final: bool,
}

impl From<CallError> for EmbedError {
    fn from(error: CallError) -> Self {
        Self { error, is_final: false }
    }
}

impl Providers {
    /// Returns a vector of finite numbers for each text, in their order, within the provider's quotas.
    /// How long vectors are is for the caller to check.
    ///
    /// # Errors
    /// -32602 where there is no such provider, -32021 or -32011 where a quota refuses it, -32020 where
    /// there is no such answer until `deadline`.
    pub async fn embed(
        &self,
        caller: &Caller,
        embed: Embed<'_>,
        deadline: Instant,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let Embed { provider, model, texts } = embed;
        let plan = self.plans().iter().find(|plan| plan.name == provider);
        let plan = plan.ok_or_else(|| self.0.unknown(provider))?;
        let client = self.0.client.for_call();
        let asked = match Wire::embeddings(plan, model, texts, &self.0.secrets).await {
            Ok(wire) => self.0.ask(caller, &wire, &client, deadline).await?,
            Err(failure) => Err(failure),
        };
        let body = asked.map_err(|failure| failed(provider, failure))?;
        openai::vectors(&body, texts.len()).ok_or_else(|| {
            let message = format!("`{provider}` answers with something else than vectors");
            CallError::new(ErrorKind::ProviderUnavailable, message).into()
        })
    }
}

fn failed(provider: &str, failure: Failure) -> EmbedError {
    let is_final = failure.sent == Sent::Refused && !failure.passes;
    EmbedError { error: unavailable(&[(provider, failure)]), is_final }
}
