//! `claw:host/provider`: completions, where the runtime file lets a profile's tools ask for them.

use std::time::Instant;

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::json;
use clawhost_core::limits::PROVIDER_REQUEST_BYTES_MAX;

use super::bindings::claw::host::provider::{self, ProviderError};
use super::state::CallState;
use crate::offload;
use crate::upstream::provider::{Caller, Providers};

/// Above this, reading a request or writing an answer takes a good part of a millisecond.
const LONG_BYTES: usize = 65_536;

/// Whom one call may ask, and what kept it from an answer.
#[derive(Debug)]
pub(super) struct ProviderCtx {
    /// Nothing where the profile does not grant it.
    providers: Option<Providers>,
    ends_at: Instant,
    pub(super) work: u64,
    denied: bool,
    failed: Option<CallError>,
}

impl ProviderCtx {
    pub(super) fn new(providers: Option<Providers>, ends_at: Instant) -> Self {
        Self { providers, ends_at, work: 0, denied: false, failed: None }
    }

    pub(super) fn set_deadline(&mut self, ends_at: Instant) {
        self.ends_at = ends_at;
    }

    /// Returns what the call tried and was refused: asking at all.
    pub(super) fn violation(&self) -> Option<String> {
        self.denied.then(|| "provider: the profile does not grant it".to_owned())
    }

    /// Returns why the call got no completion, the first time it got none.
    pub(super) fn failed(&self) -> Option<&CallError> {
        self.failed.as_ref()
    }

    /// Asks for `caller`, and asks its `preferred` model where the request names none.
    async fn complete(
        &mut self,
        caller: &Caller,
        preferred: Option<String>,
        request: String,
    ) -> Result<String, ProviderError> {
        let Some(providers) = self.providers.clone() else {
            self.denied = true;
            return Err(ProviderError::Denied("the profile does not grant it".to_owned()));
        };
        if request.len() > PROVIDER_REQUEST_BYTES_MAX {
            let text = format!("a request is at most {PROVIDER_REQUEST_BYTES_MAX} bytes");
            return Err(ProviderError::Failed(text));
        }
        self.work += request.len() as u64;
        let long = request.len() > LONG_BYTES;
        let mut request =
            offload::blocking(long, || json::parse(request.as_bytes())).map_err(|error| {
                ProviderError::Failed(format!("the request cannot be read: {error}"))
            })?;
        if let (Some(preferred), Some(request)) = (preferred, request.as_object_mut()) {
            request.entry("model").or_insert(preferred.into());
        }
        let answer = providers.complete(caller, request, self.ends_at).await;
        let answer = answer.map_err(|error| self.fail(error))?.to_string();
        self.work += answer.len() as u64;
        Ok(answer)
    }

    /// Notes an error, unless the guest's own request is to blame, and tells the guest.
    fn fail(&mut self, error: CallError) -> ProviderError {
        let message = error.message.clone();
        let kind = error.kind;
        if kind != ErrorKind::InvalidArguments && self.failed.is_none() {
            self.failed = Some(error);
        }
        match kind {
            ErrorKind::ProviderQuota | ErrorKind::Overloaded => ProviderError::OverQuota(message),
            _ => ProviderError::Failed(message),
        }
    }
}

impl provider::Host for CallState {
    async fn complete(&mut self, request: String) -> Result<String, ProviderError> {
        let complete = async |state: &mut Self| {
            let caller = state.agent.caller();
            let preferred = state.agent.preferred().await;
            let preferred = preferred.map_err(|error| ProviderError::Failed(error.message))?;
            state.provider.complete(&caller, preferred, request).await
        };
        self.taped("provider.complete", ProviderError::Failed, complete).await
    }
}
