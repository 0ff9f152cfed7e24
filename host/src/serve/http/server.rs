//! A server: where it is and for whom, and its connections, from the first to the last answer.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use clawhost_core::limits::HTTP_BACKLOG_MAX;
#[cfg(target_os = "linux")]
use clawhost_core::limits::HTTP_SEND_MS;
use http::Response;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Duration, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::routes::{App, Body, Request};
use super::seats::{Seat, Seats};
use crate::host::Host;
use crate::proxy::ProxyOptions;
use crate::serve::Shutdown;
use crate::serve::accept::{accept_all, http_server};
use crate::serve::calls::Calls;
use crate::state::Credentials;

/// How to serve HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpOptions {
    /// Where to listen. Port 0 takes a free one.
    pub address: SocketAddr,
    /// Whether an agent needs its token. Without, only loopback addresses are accepted and
    /// everybody who can connect is the agent `default`.
    pub require_token: bool,
    /// Names or `name:port` beside the loopback ones under which clients know this host.
    pub allowed_hosts: Vec<String>,
    /// Origins (`https://name:port`) by which browsers know the host's own pages, beside its address: a proxy's. Without
    /// CORS the pages of others cannot call, listed or not.
    pub allowed_origins: Vec<String>,
    /// Whether the operator's console is served at `/console`.
    pub console: bool,
    /// How completions are served at `/v1`; not at all where this is absent.
    pub proxy: Option<ProxyOptions>,
}

impl HttpOptions {
    /// Returns the safe defaults: tokens, no name or page beside the host's own, and a console where only
    /// this machine can reach it.
    pub const fn new(address: SocketAddr) -> Self {
        Self {
            address,
            require_token: true,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            console: address.ip().is_loopback(),
            proxy: None,
        }
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct BoundServer {
    /// Where it listens, with the real port.
    pub local_addr: SocketAddr,
    /// Ends when the server has stopped.
    pub task: JoinHandle<()>,
}

/// How long connections may take to close once their calls are cancelled.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// Serves `host` over HTTP until it is told to shut down: then it takes no more requests, gives
/// running calls the grace to end, and closes.
///
/// # Errors
/// `InvalidInput` where tokens are not required on an address others can reach, and whatever
/// listening on the address says.
pub async fn serve_http(
    host: Host,
    credentials: Arc<Credentials>,
    options: HttpOptions,
    shutdown: Shutdown,
) -> io::Result<BoundServer> {
    serve_within(Seats::all(), host, credentials, options, shutdown).await
}

pub(super) async fn serve_within<C: Calls>(
    seats: Arc<Seats>,
    calls: C,
    credentials: Arc<Credentials>,
    options: HttpOptions,
    shutdown: Shutdown,
) -> io::Result<BoundServer> {
    let (listener, local_addr) = listen(&options).await?;
    let app = App::new(calls, credentials, &options, local_addr, shutdown.told.clone());
    Ok(start(listener, local_addr, Arc::new(app), seats, shutdown))
}

#[expect(clippy::disallowed_methods, reason = "it listens where the operator says")]
pub(super) async fn listen(options: &HttpOptions) -> io::Result<(TcpListener, SocketAddr)> {
    if !options.require_token && !options.address.ip().is_loopback() {
        let text = "tokens can be dropped on a loopback address only";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let listener = TcpListener::bind(options.address).await?;
    rustix::net::listen(&listener, HTTP_BACKLOG_MAX)?;
    let local_addr = listener.local_addr()?;
    Ok((listener, local_addr))
}

pub(super) fn start(
    listener: TcpListener,
    local_addr: SocketAddr,
    app: Arc<impl Answers>,
    seats: Arc<Seats>,
    shutdown: Shutdown,
) -> BoundServer {
    let task = tokio::spawn(async move { run(listener, app, &seats, shutdown).await });
    BoundServer { local_addr, task }
}

/// What is behind the connections of a server.
pub(super) trait Answers: Send + Sync + 'static {
    /// Answers one request, whatever it is, that came over the connection in `seat`.
    fn answer(
        &self,
        request: Request,
        seat: &Arc<Seat>,
    ) -> impl Future<Output = Response<Body>> + Send;

    /// Waits until nothing runs.
    fn idle(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Ends what still runs; it is answered.
    fn close(&self) -> impl Future<Output = ()> + Send;

    /// Waits until what is written down of all that was begun is on disk.
    fn flush(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

async fn run<A: Answers>(
    listener: TcpListener,
    app: Arc<A>,
    seats: &Arc<Seats>,
    shutdown: Shutdown,
) {
    // With a request in flight on every connection, new clients wait in the system's queue.
    let next = || async { Ok((listener.accept().await?.0, seats.take().await)) };
    let serve =
        |(stream, seat)| serve_connection(stream, seat, Arc::clone(&app), shutdown.told.clone());
    let mut connections = accept_all(&shutdown.told, next, serve).await;
    drop(listener);

    // Streams without an end have ended with `shutdown`; what is left are answers on their way.
    let answered = async {
        while connections.join_next().await.is_some() {}
        app.idle().await;
    };
    if timeout(shutdown.grace, answered).await.is_err() {
        warn!("calls still running after the grace of {:?} are cancelled", shutdown.grace);
    }
    app.close().await;
    let closed = async { while connections.join_next().await.is_some() {} };
    if timeout(CLOSE_GRACE, closed).await.is_err() {
        debug!("closing connections that do not close by themselves");
    }
    // An answer that breaks off is written down as well.
    connections.shutdown().await;
    app.flush().await;
}

async fn serve_connection<A: Answers>(
    stream: TcpStream,
    seat: Arc<Seat>,
    app: Arc<A>,
    shutdown: CancellationToken,
) {
    if let Err(error) = prepare(&stream) {
        debug!(%error, "a connection may be slow, or stay for long");
    }
    let service = service_fn(|request| {
        let (app, seat) = (Arc::clone(&app), Arc::clone(&seat));
        async move { Ok::<_, std::convert::Infallible>(app.answer(request, &seat).await) }
    });
    let mut connection = pin!(http_server().serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        biased;
        () = seat.evicted() => return debug!("an idle connection made room for another"),
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended");
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    // Else what follows the first part of an answer waits until the client has acknowledged that, for 40 ms.
    stream.set_nodelay(true)?;
    // Who takes nothing of an answer keeps neither its place nor the answer.
    #[cfg(target_os = "linux")]
    rustix::net::sockopt::set_tcp_user_timeout(stream, HTTP_SEND_MS)?;
    Ok(())
}
