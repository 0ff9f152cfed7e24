//! `/console`: the page for whoever connects, and its questions for the operator.
//!
//! Deliberately absent: who asks, which `routes` has settled, and what the answers say.

use clawhost_core::limits::{CONSOLE_REQUESTS_MAX, HTTP_GIVEN_BACK_MS};
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Duration, timeout};
use tokio_util::sync::CancellationToken;

use super::body::{accepted, answer_json, read_body, require_json};
use super::guard::Denied;
use super::routes::{Body, Request};
use crate::host::Host;
use crate::serve::console;
use crate::serve::message;
use crate::serve::operator::{Operator, told};

/// The console of one host.
pub(super) struct Console {
    operator: Operator,
    /// Whoever waits for news has one of these meanwhile.
    waits: Semaphore,
    /// Everything else has one of these until it is answered.
    questions: Semaphore,
}

impl Console {
    /// Returns the console of `host`.
    pub(super) fn new(host: Host) -> Self {
        let places = || Semaphore::new(CONSOLE_REQUESTS_MAX);
        Self { operator: Operator::new(host), waits: places(), questions: places() }
    }

    /// Returns a file of the page. It holds nothing of this host.
    pub(super) fn file(request: &Request) -> Result<Response<Body>, Denied> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(Denied::method("GET, HEAD"));
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
        let question = self.question().await?;
        let body = read_body(request.into_body()).await?;
        // Who waits long keeps no place from what is answered at once: the operator's word is among that.
        let _place = match is_wait(&body) {
            true => {
                drop(question);
                self.waits.try_acquire().map_err(|_| too_many())?
            }
            false => question,
        };
        let answer = shutdown.run_until_cancelled(self.operator.answer(&body, told)).await;
        match answer {
            Some(Some(answer)) => Ok(answer_json(StatusCode::OK, answer)),
            Some(None) => Ok(accepted()),
            None => Err(Denied::new(StatusCode::SERVICE_UNAVAILABLE, "the host is stopping")),
        }
    }

    /// Takes a place for a question. Each page asks several together, so one that is taken is free in a moment.
    async fn question(&self) -> Result<SemaphorePermit<'_>, Denied> {
        let patience = Duration::from_millis(HTTP_GIVEN_BACK_MS);
        let taken = timeout(patience, self.questions.acquire()).await;
        taken.ok().and_then(Result::ok).ok_or_else(too_many)
    }
}

/// Says whether a message asks for news, for which it may wait.
fn is_wait(body: &[u8]) -> bool {
    message::read(body).is_ok_and(|incoming| incoming.method() == "clawhost.news")
}

fn too_many() -> Denied {
    let text = "too many consoles ask at once; close one";
    Denied::new(StatusCode::TOO_MANY_REQUESTS, text)
}
