//! Taking connections until it is time to stop, each in a task of its own, and how serving ends.
//!
//! Deliberately absent: how many there may be at once. Whoever hands them over waits for a place.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clawhost_core::limits::{
    HTTP_HEADER_BYTES_MAX, HTTP_HEADER_READ_MS, ONE_HEADER_READ_MS, SHUTDOWN_GRACE_MS,
};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// How serving ends: when it is told, and what running calls then get.
#[derive(Debug, Clone)]
pub struct Shutdown {
    /// Cancelled to begin it.
    pub told: CancellationToken,
    /// How long running calls may take to end.
    pub grace: Duration,
}

impl From<CancellationToken> for Shutdown {
    /// Gives running calls [`SHUTDOWN_GRACE_MS`].
    fn from(told: CancellationToken) -> Self {
        Self { told, grace: Duration::from_millis(SHUTDOWN_GRACE_MS) }
    }
}

/// Returns what speaks HTTP with one connection, within the bounds of a header's size and time.
pub(super) fn http_server() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(HTTP_HEADER_READ_MS))
        .max_buf_size(HTTP_HEADER_BYTES_MAX);
    builder
}

/// Answers one request a connection until it is told to shut down: of `places` at a time, each within
/// `patience`. Whoever is slow to ask, or too slow to read, gives the place to another.
pub(super) async fn answer_each<Answer, Answered>(
    listener: TcpListener,
    (places, patience): (usize, Duration),
    answer: Answer,
    shutdown: Shutdown,
) where
    Answer: Fn(Request<Incoming>) -> Answered + Clone + Send + Sync + 'static,
    Answered: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(places));
    // With all places taken, clients wait in the system's queue.
    let next = || async {
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        Ok((listener.accept().await?.0, place))
    };
    let serve = |(stream, place): (TcpStream, _)| {
        let answer = answer.clone();
        async move {
            let service = service_fn(|request| {
                let answered = answer(request);
                async { Ok::<_, Infallible>(answered.await) }
            });
            let mut server = http_server();
            server.header_read_timeout(Duration::from_millis(ONE_HEADER_READ_MS));
            let connection =
                server.keep_alive(false).serve_connection(TokioIo::new(stream), service);
            match timeout(patience, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(%error, "a connection ended"),
                Err(_) => debug!("a connection took too long"),
            }
            drop(place);
        }
    };
    let mut connections = accept_all(&shutdown.told, next, serve).await;
    let answered = async { while connections.join_next().await.is_some() {} };
    if timeout(shutdown.grace, answered).await.is_err() {
        debug!("closing connections that do not close by themselves");
    }
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

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "its client connects to the server under test")]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn half_a_header_is_waited_for_and_not_for_ever() {
        let (mut client, stream) = tokio::io::duplex(1_024);
        client.write_all(b"GET / HT").await.unwrap();
        let answer = async |_: Request<Incoming>| {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        };
        let begun = Instant::now();
        let served = http_server().serve_connection(TokioIo::new(stream), service_fn(answer));
        let ended = timeout(Duration::from_secs(600), served).await;
        assert!(ended.is_ok_and(|ended| ended.is_err()));
        assert_eq!(begun.elapsed().as_secs(), HTTP_HEADER_READ_MS / 1_000);
    }

    #[tokio::test]
    async fn half_a_header_keeps_nobody_out_for_long() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, told) = (listener.local_addr().unwrap(), CancellationToken::new());
        let answer = async |_| Response::new(Full::from("here"));
        let bounds = (1, Duration::from_secs(60));
        let server =
            tokio::spawn(answer_each(listener, bounds, answer, Shutdown::from(told.clone())));
        let asks = async |head: &str| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            stream
        };
        let _slow = asks("GET / HT").await;
        let (mut text, mut quick) =
            (String::new(), asks("GET / HTTP/1.1\r\nHost: h\r\n\r\n").await);
        let patience = Duration::from_millis(HTTP_HEADER_READ_MS / 2);
        timeout(patience, quick.read_to_string(&mut text)).await.unwrap().unwrap();
        assert!(text.ends_with("here"), "{text}");
        told.cancel();
        server.await.unwrap();
    }
}
