//! Taking connections until it is time to stop, each in a task of its own.
//!
//! Deliberately absent: how many there may be at once. Whoever hands them over waits for a place.

use std::io;
use std::time::Duration;

use clawhost_core::limits::{HTTP_HEADER_BYTES_MAX, HTTP_HEADER_READ_MS};
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Returns what speaks HTTP with one connection, within the bounds of a header's size and time.
pub(super) fn http_server() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(HTTP_HEADER_READ_MS))
        .max_buf_size(HTTP_HEADER_BYTES_MAX);
    builder
}

/// How long a failed `accept` (no more file handles, mostly) keeps a server from trying again.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves what `next` hands over until `stop`, and returns what is still being served.
pub(super) async fn accept_all<T, Next, Served>(
    stop: &CancellationToken,
    mut next: impl FnMut() -> Next,
    serve: impl Fn(T) -> Served,
) -> JoinSet<()>
where
    Next: Future<Output = io::Result<T>>,
    Served: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return connections,
            accepted = next() => accepted,
        };
        match accepted {
            Ok(connection) => drop(connections.spawn(serve(connection))),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}
