//! A registry: documents and components of one folder, to be read by anybody on this machine.
//!
//! GET and HEAD only, one request a connection, and nothing is ever written. Deliberately absent:
//! tokens and TLS (it listens on loopback addresses; a proxy in front of it adds both), lists,
//! search and uploads: whoever publishes copies files. REGISTRY.md is the page for people.

mod folder;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "it publishes folders of its own")]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cap_std::fs::Dir;
use clawhost_core::limits::{REGISTRY_LOAD_MS, REGISTRY_REQUESTS_MAX};
use clawhost_core::uri::RegistryUri;
use clawhost_core::{digest, egress};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use tracing::warn;
use url::Host;

pub use self::folder::Listed;
use self::folder::{Folder, Item, Unpublished};
use super::accept::answer_each;
use super::{BoundServer, Shutdown};

/// Returns what [`serve_registry`] would publish of `dir`, by its places, and what is wrong with it.
/// It reads every document and component.
///
/// # Errors
/// The handle cannot be used.
pub fn list_registry(dir: &Dir) -> io::Result<Vec<Listed>> {
    Ok(Folder::new(dir.try_clone()?).list())
}

/// Publishes `dir` on `address` until it is told to shut down.
///
/// # Errors
/// `InvalidInput` where others than this machine could reach the address, and whatever listening
/// on it says.
#[expect(clippy::disallowed_methods, reason = "it listens where the operator says")]
pub async fn serve_registry(
    dir: Dir,
    address: SocketAddr,
    shutdown: Shutdown,
) -> io::Result<BoundServer> {
    if !address.ip().is_loopback() {
        let text = "a registry listens on a loopback address; put a proxy with TLS in front of it";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let listener = TcpListener::bind(address).await?;
    let local_addr = listener.local_addr()?;
    let folder = Arc::new(Folder::new(dir));
    let bounds = (REGISTRY_REQUESTS_MAX, Duration::from_millis(REGISTRY_LOAD_MS));
    let serve = move |request| answer(request, Arc::clone(&folder));
    let task = tokio::spawn(answer_each(listener, bounds, serve, shutdown));
    Ok(BoundServer { local_addr, task })
}

/// A refusal: its status, its name for programs, and its text for people.
struct Refusal(StatusCode, &'static str, String);

async fn answer(request: Request<Incoming>, folder: Arc<Folder>) -> Response<Full<Bytes>> {
    match found(&request, folder).await {
        Ok(found) => delivered(request.headers(), found),
        Err(Refusal(status, code, message)) => {
            let body = json!({"error": {"code": code, "message": message}}).to_string();
            let response = Response::builder().status(status);
            let response = response.header(header::CONTENT_TYPE, "application/json");
            response.header(header::ALLOW, "GET, HEAD").body(Full::from(body)).unwrap_or_default()
        }
    }
}

async fn found(request: &Request<Incoming>, folder: Arc<Folder>) -> Result<folder::Found, Refusal> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let text = "a registry is only read: GET or HEAD";
        return Err(Refusal(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", text.to_owned()));
    }
    if !names_this_machine(request.headers()) {
        let text = "the Host header has to be a loopback address or localhost";
        return Err(Refusal(StatusCode::FORBIDDEN, "host-not-served", text.to_owned()));
    }
    let (uri, item) = asked(request.uri()).ok_or_else(|| {
        let text = "the path is /{namespace}/{name}/{version}, or that and /document or /component";
        Refusal(StatusCode::BAD_REQUEST, "bad-address", text.to_owned())
    })?;
    let shown = uri.to_string();
    let read = spawn_blocking(move || folder.read(&uri, item)).await;
    let read = read.unwrap_or_else(|error| Err(io::Error::other(error).into()));
    read.map_err(|error| refusal(&shown, &error))
}

fn refusal(uri: &str, error: &Unpublished) -> Refusal {
    let text = format!("{uri}: {}", error.reason());
    let code = match error {
        Unpublished::Absent => return Refusal(StatusCode::NOT_FOUND, "not-found", text),
        Unpublished::Invalid(_) => "invalid-package",
        Unpublished::Unreadable(_) => "unreadable",
    };
    warn!("{text}");
    Refusal(StatusCode::INTERNAL_SERVER_ERROR, code, text)
}

/// Says whether a request was meant for this machine: a page whose name was made to point here
/// reads nothing.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    let authority = host.to_str().ok().and_then(|text| text.parse::<http::uri::Authority>().ok());
    let named = authority.and_then(|authority| Host::parse(authority.host()).ok());
    named.is_some_and(egress::is_this_machine)
}

/// Reads a path; what is no address that can be published is nothing. Nothing is decoded: all
/// characters of an address stand for themselves.
fn asked(uri: &Uri) -> Option<(RegistryUri, Item)> {
    if uri.query().is_some() {
        return None;
    }
    let segments: Vec<&str> = uri.path().split('/').collect();
    let (namespace, name, version, item) = match segments.as_slice() {
        ["", namespace, name, version] => (namespace, name, version, Item::Index),
        ["", namespace, name, version, "document"] => (namespace, name, version, Item::Document),
        ["", namespace, name, version, "component"] => (namespace, name, version, Item::Component),
        _ => return None,
    };
    Some((folder::address(namespace, name, version)?, item))
}

fn delivered(headers: &HeaderMap, found: folder::Found) -> Response<Full<Bytes>> {
    let digest = digest::of_bytes(&found.bytes);
    let etag = format!("\"{digest}\"");
    let known =
        headers.get(header::IF_NONE_MATCH).is_some_and(|tag| tag.as_bytes() == etag.as_bytes());
    let response = Response::builder()
        .header(header::ETAG, &etag)
        .header(header::CACHE_CONTROL, "no-cache")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    let response = if known {
        response.status(StatusCode::NOT_MODIFIED).body(Full::default())
    } else {
        response
            .header(header::CONTENT_TYPE, found.media)
            .header("repr-digest", repr_digest(&digest))
            .body(Full::from(found.bytes))
    };
    response.unwrap_or_default()
}

/// Spells `sha256:<hex>` as RFC 9530 does.
fn repr_digest(digest: &str) -> String {
    let bytes = digest::unhex(digest.trim_start_matches("sha256:")).unwrap_or_default();
    format!("sha-256=:{}:", STANDARD.encode(bytes))
}
