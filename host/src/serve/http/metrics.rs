//! Measurements, for who comes and asks: `/metrics` as Prometheus reads it, on an address of its own.
//!
//! What is told there is how much of what, never who, with what arguments or why: so there is no token,
//! and no scraper has to hold the operator's credential, which could do more than read. One request a
//! connection. Deliberately absent: every other path.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clawhost_core::limits::{METRICS_REQUEST_MS, METRICS_REQUESTS_MAX};
use http::{Method, Response, StatusCode, header};
use http_body_util::Full;
use tokio::net::TcpListener;

use super::guard::{Denied, Guard};
use super::routes::Request;
use super::{BoundServer, HttpOptions};
use crate::host::Host;
use crate::serve::Shutdown;
use crate::serve::accept::answer_each;

/// What the text format calls itself.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves the measurements of `host` until it is told to shut down; of `options`, address and
/// `allowed_hosts` hold here.
///
/// # Errors
/// Whatever listening on the address says.
#[expect(clippy::disallowed_methods, reason = "it listens where the operator says")]
pub async fn serve_metrics(
    host: Host,
    options: HttpOptions,
    shutdown: Shutdown,
) -> io::Result<BoundServer> {
    let listener = TcpListener::bind(options.address).await?;
    let local_addr = listener.local_addr()?;
    let shared = Arc::new((host, Guard::new(&options, local_addr)));
    let answer = move |request: Request| {
        let shared = Arc::clone(&shared);
        async move { answered(read(&shared.0, &shared.1, &request)) }
    };
    let bounds = (METRICS_REQUESTS_MAX, Duration::from_millis(METRICS_REQUEST_MS));
    let task = tokio::spawn(answer_each(listener, bounds, answer, shutdown));
    Ok(BoundServer { local_addr, task })
}

fn read(host: &Host, guard: &Guard, request: &Request) -> Result<String, Denied> {
    guard.check(request.uri(), request.headers())?;
    match (request.uri().path(), request.method()) {
        ("/metrics", &Method::GET) => Ok(now(host) + &host.telemetry().measurements()),
        ("/metrics", _) => Err(Denied::method("GET")),
        _ => Err(Denied::new(StatusCode::NOT_FOUND, "there is /metrics")),
    }
}

/// Returns what is not counted but looked at.
fn now(host: &Host) -> String {
    let catalog = host.catalog();
    let served = catalog.tools().count();
    let gauges = [
        ("calls_running", "Tool calls between their two records.", host.running().len()),
        ("approvals_waiting", "Calls that wait for a person.", host.approvals().pending().len()),
        ("tools", "Tools that are served.", served),
        ("tools_refused", "Tools that could not be loaded.", catalog.refused.len()),
    ];
    let gauge = |(name, says, value): (&str, &str, usize)| {
        format!(
            "# HELP clawhost_{name} {says}\n# TYPE clawhost_{name} gauge\nclawhost_{name} {value}\n"
        )
    };
    gauges.into_iter().map(gauge).collect()
}

fn answered(outcome: Result<String, Denied>) -> Response<Full<Bytes>> {
    let (status, text) = match outcome {
        Ok(text) => (StatusCode::OK, text),
        Err(denied) => (denied.status, denied.text),
    };
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, TEXT_FORMAT);
    let response = response.header(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    response.body(Full::from(text)).unwrap_or_default()
}
