//! Why a request has no completion, as its protocol says so.

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::mediate::{Dialect, Failed};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use super::Body;
use super::answer::answer_json;

/// What the libraries of both protocols look at before they ask again by themselves.
pub(super) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) text: String,
    /// What a protocol that has codes calls it.
    pub(super) code: Option<&'static str>,
    /// What the provider said, in the protocol's own words.
    pub(super) body: Option<Value>,
    pub(super) retry_after_ms: Option<u64>,
    /// A call was made that would be made once more, or the provider says that it is of no use.
    pub(super) is_final: bool,
}

impl Refused {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        let (text, is_final) = (text.into(), false);
        Self { status, text, code: None, body: None, retry_after_ms: None, is_final }
    }

    /// Returns what a defect of the host is answered with, which stands between the client and its model.
    pub(super) fn internal() -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "the host failed; please report this")
    }

    pub(super) fn json(&self, dialect: &dyn Dialect) -> Value {
        let own = || {
            let mut own = dialect.error(self.status.as_u16(), &self.text);
            if let (Some(code), Some(place)) = (self.code, own.pointer_mut("/error/code")) {
                *place = code.into();
            }
            own
        };
        self.body.clone().unwrap_or_else(own)
    }

    pub(super) fn answer(&self, dialect: &dyn Dialect) -> Response<Body> {
        let mut response = answer_json(self.status, self.json(dialect).to_string());
        if let Some(ms) = self.retry_after_ms {
            let seconds = HeaderValue::from(ms.div_ceil(1_000));
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        if self.is_final {
            response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        response
    }
}

impl From<CallError> for Refused {
    fn from(error: CallError) -> Self {
        let is_busy = error.data.get("busy").and_then(Value::as_bool).unwrap_or_default();
        let status = match error.kind {
            ErrorKind::Overloaded | ErrorKind::ProviderQuota => StatusCode::TOO_MANY_REQUESTS,
            ErrorKind::ProviderUnavailable if is_busy => StatusCode::TOO_MANY_REQUESTS,
            // No provider is called so.
            ErrorKind::InvalidArguments => StatusCode::NOT_FOUND,
            // No provider answers, or the host itself fails.
            _ => StatusCode::BAD_GATEWAY,
        };
        let retry_after_ms = error.data.get("retry_after_ms").and_then(Value::as_u64);
        let code = (status == StatusCode::NOT_FOUND).then_some("model_not_found");
        Self { retry_after_ms, code, ..Self::new(status, error.message) }
    }
}

impl From<Failed> for Refused {
    fn from(failed: Failed) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, failed.0)
    }
}

#[cfg(test)]
mod tests {
    use clawhost_core::mediate::OpenAi;

    use super::*;

    #[test]
    fn what_fails_between_a_client_and_its_model_is_a_gateway_s() {
        let of = |kind| Refused::from(CallError::new(kind, "it failed"));
        let failed = [ErrorKind::Internal, ErrorKind::ProviderUnavailable].map(of);
        for refused in failed.into_iter().chain([Refused::internal()]) {
            assert_eq!(refused.status, StatusCode::BAD_GATEWAY, "{refused:?}");
        }
    }

    #[test]
    fn only_a_model_that_is_not_there_is_called_so() {
        let code = |refused: Refused| refused.json(&OpenAi)["error"]["code"].clone();
        let unknown = CallError::new(ErrorKind::InvalidArguments, "no such model");
        assert_eq!(code(unknown.into()), "model_not_found");
        assert!(code(Refused::new(StatusCode::NOT_FOUND, "no such path")).is_null());
    }
}
