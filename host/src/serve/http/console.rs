//! `/console`: the page for whoever connects, and its questions for the operator.
//!
//! The page is three files inside this program, with the headers that keep a browser to them. It keeps the operator's
//! credential in its memory and sends it with each question. It is no cookie: a browser sends those by itself, and to
//! every port of a machine, so that a page which an agent's tool serves here could make the operator's browser speak,
//! or be told the cookie. What no browser sends by itself needs no further guard against that. Deliberately absent: who
//! asks, which `routes` has settled, what the answers say, anything from elsewhere, and a build step.

use clawhost_core::limits::CONSOLE_REQUESTS_MAX;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::admission::given_back;
use super::body::{accepted, answer_json, read_body, require_json};
use super::guard::{Answered, Denied};
use super::routes::Request;
use crate::host::Host;
use crate::serve::message;
use crate::serve::operator::{Operator, told};

pub(super) const PAGE: &str = "/console";
pub(super) const API: &str = "/console/api";

/// What a browser may do here: load these files, and ask this host. No script is text of a page, and
/// where a browser knows how, no text becomes elements.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     form-action 'none'; frame-ancestors 'none'; base-uri 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

/// Sent with whatever is answered below [`PAGE`].
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
];

/// Says whether `path` is one of the console's.
pub(super) fn has(path: &str) -> bool {
    path.strip_prefix(PAGE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns a file of the page, with its type.
fn file(path: &str) -> Option<(&'static str, &'static str)> {
    match path.strip_prefix(PAGE)? {
        "" | "/" => Some(("text/html; charset=utf-8", include_str!("console/console.html"))),
        "/console.css" => Some(("text/css; charset=utf-8", include_str!("console/console.css"))),
        "/console.js" => {
            Some(("text/javascript; charset=utf-8", include_str!("console/console.js")))
        }
        _ => None,
    }
}

/// Adds what an answer of the console has to say to a browser.
pub(super) fn protect(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

pub(super) struct Console {
    operator: Operator,
    /// Whoever waits for news has one of these meanwhile.
    waits: Semaphore,
    /// Everything else has one of these until it is answered.
    questions: Semaphore,
}

impl Console {
    pub(super) fn new(host: Host) -> Self {
        let places = || Semaphore::new(CONSOLE_REQUESTS_MAX);
        Self { operator: Operator::new(host), waits: places(), questions: places() }
    }

    /// Returns a file of the page. It holds nothing of this host.
    pub(super) fn file(request: &Request) -> Answered {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(Denied::method("GET, HEAD"));
        }
        let (kind, text) = file(request.uri().path())
            .ok_or_else(|| Denied::new(StatusCode::NOT_FOUND, "the console has no such file"))?;
        let mut response = Response::new(Full::new(text.into()).boxed());
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        Ok(response)
    }

    /// Answers a question of the operator's; what waits for news does not wait beyond `shutdown`.
    pub(super) async fn answer(&self, request: Request, shutdown: &CancellationToken) -> Answered {
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
        given_back(self.questions.acquire()).await.ok_or_else(too_many)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_nothing_inline_and_nothing_from_elsewhere() {
        let [page, style, script] = ["", "/console.css", "/console.js"]
            .map(|path| file(&format!("{PAGE}{path}")).unwrap().1);
        for needle in [" style=", "<style", "onclick", "onload", "javascript:", "<script>"] {
            assert!(!page.contains(needle), "{needle}");
        }
        for needle in ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("] {
            assert!(!script.contains(needle), "{needle}");
        }
        for text in [page, style, script] {
            assert!(!text.contains("//www") && !text.contains("http") && !text.contains("@import"));
        }
    }

    #[test]
    fn only_what_is_below_the_page_is_the_console_s() {
        assert!(has("/console") && has("/console/api") && has("/console/"));
        assert!(!has("/consoles") && !has("/mcp") && !has("/"));
        assert!(file("/console").is_some() && file("/console/") == file("/console"));
        assert!(file("/console//").is_none() && file("/console/../status").is_none());
    }
}
