//! One connection: to a checked address only, for one request and its answer.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use bytes::Bytes;
use clawhost_core::limits::{EGRESS_ADDRESSES_MAX, EGRESS_HEADER_BYTES_MAX, EGRESS_HEADERS_MAX};
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Limited;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::task::AbortOnDropHandle;

use super::client::{Permits, within};
use super::{RequestLimits, ResponseBody, UpstreamError};

/// A connection that is ready for a request.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The task that moves a connection's bytes; dropping it closes the connection.
pub(super) type Driver = AbortOnDropHandle<()>;

/// Connects to the first of `addresses` that takes a connection, each with an equal share of
/// the time until `until`, so that one silent address does not hide the next.
#[expect(clippy::disallowed_methods, reason = "it connects, to addresses that were checked")]
pub(super) async fn dial(
    addresses: &[IpAddr],
    port: u16,
    until: Instant,
) -> Result<TcpStream, UpstreamError> {
    let mut failure = UpstreamError::ConnectTimeout;
    let mut left = u32::try_from(addresses.len().min(EGRESS_ADDRESSES_MAX)).unwrap_or(1);
    for ip in addresses.iter().take(EGRESS_ADDRESSES_MAX) {
        let now = Instant::now();
        let share = until.saturating_duration_since(now) / left.max(1);
        left = left.saturating_sub(1);
        match within(now + share, TcpStream::connect(SocketAddr::new(*ip, port))).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true).map_err(UpstreamError::Connect)?;
                return Ok(stream);
            }
            Ok(Err(error)) => failure = UpstreamError::Connect(error),
            Err(_) => {}
        }
    }
    Err(failure)
}

/// Sends `request` over `stream` and returns the answer, the body of which owns the
/// connection.
pub(super) async fn exchange<B>(
    stream: Stream,
    request: Request<B>,
    permits: Permits,
    limits: &RequestLimits,
) -> Result<Response<ResponseBody>, UpstreamError>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (response, driver) = match stream {
        Stream::Plain(tcp) => send(tcp, request, limits.sent_bytes_max).await?,
        Stream::Tls(tls) => send(tls, request, limits.sent_bytes_max).await?,
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let error = io::Error::other("the server switched protocols unasked");
        return Err(UpstreamError::Protocol(error.into()));
    }
    Ok(response.map(|incoming| ResponseBody::new(incoming, driver, permits, limits)))
}

async fn send<S, B>(
    stream: S,
    request: Request<B>,
    bytes_max: u64,
) -> Result<(Response<Incoming>, Driver), UpstreamError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut builder = http1::Builder::new();
    builder.max_headers(EGRESS_HEADERS_MAX).max_header_size(EGRESS_HEADER_BYTES_MAX);
    builder.max_buf_size(EGRESS_HEADER_BYTES_MAX);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    let driver = Driver::new(tokio::spawn(async move {
        // A failure here also ends the answer's body, which is where it is reported.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "an outgoing connection ended.");
        }
    }));
    let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    // Bounded, as a guest may stream one without end. On the heap: hyper wants to move the body, and not every
    // one can be.
    let request = request.map(|body| Box::pin(Limited::new(body, bytes_max)));
    Ok((sender.send_request(request).await?, driver))
}
