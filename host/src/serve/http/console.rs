//! `/console`: the page for whoever connects, and its questions for the operator.
//!
//! Deliberately absent: who asks, which `routes` has settled, and what the answers say.

use clawhost_core::limits::CONSOLE_REQUESTS_MAX;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::body::{accepted, answer_json, read_body, require_json};
use super::guard::Denied;
use super::routes::{Body, Request};
use crate::host::Host;
use crate::serve::console;
use crate::serve::operator::{Operator, told};

/// The console of one host.
pub(super) struct Console {
    operator: Operator,
    requests: Semaphore,
}

impl Console {
    /// Returns the console of `host`.
    pub(super) fn new(host: Host) -> Self {
        Self { operator: Operator::new(host), requests: Semaphore::new(CONSOLE_REQUESTS_MAX) }
    }

    /// Returns a file of the page. It holds nothing of this host.
    pub(super) fn file(request: &Request) -> Result<Response<Body>, Denied> {
        if request.method() != Method::GET {
            return Err(Denied::method("GET"));
        }
        let (kind, text) = console::file(request.uri().path())
            .ok_or_else(|| Denied::new(StatusCode::NOT_FOUND, "the console has no such file"))?;
        let mut response = Response::new(Full::new(text.into()).boxed());
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        Ok(response)
    }

    /// Answers a question of the operator's; what waits for news does not wait beyond `shutdown`.
    pub(super) async fn answer(
        &self,
        request: Request,
        shutdown: &CancellationToken,
    ) -> Result<Response<Body>, Denied> {
        if request.method() != Method::POST {
            return Err(Denied::method("POST"));
        }
        require_json(request.headers())?;
        let _place = self.requests.try_acquire().map_err(|_| {
            let text = "too many consoles ask at once; close one";
            Denied::new(StatusCode::TOO_MANY_REQUESTS, text)
        })?;
        let body = read_body(request.into_body()).await?;
        let answer = shutdown.run_until_cancelled(self.operator.answer(&body, told)).await;
        match answer {
            Some(Some(answer)) => Ok(answer_json(StatusCode::OK, answer)),
            Some(None) => Ok(accepted()),
            None => Err(Denied::new(StatusCode::SERVICE_UNAVAILABLE, "the host is stopping")),
        }
    }
}
