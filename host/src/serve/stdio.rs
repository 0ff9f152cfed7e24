//! Both dialects over standard input and output: the parent process is an agent's client, and for
//! `claw.*` methods the operator as well.
//!
//! Standard output carries protocol only. Deliberately absent: logging, and any word to a person;
//! both belong to standard error and to the command line.

pub use clawhost_core::manifest::STDIO_PRINCIPAL;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Shutdown;
use super::framer::serve_lines;
use crate::host::{Host, Principal};

/// Serves `host` on standard input and output until the input ends and every accepted request is
/// answered, the output breaks, or it is told to shut down and the grace is over.
///
/// Where both streams are pipes on Linux, no thread is involved; elsewhere a read that waits on a
/// terminal may outlive this call, so the process should end by itself afterwards.
///
/// Says whether anybody ever spoke.
pub async fn serve_stdio(host: Host, shutdown: Shutdown) -> bool {
    let principal = Principal(STDIO_PRINCIPAL.to_owned());
    serve_streams(host, principal, rmcp::transport::stdio_pipes(), shutdown).await
}

/// As [`serve_stdio`], for `principal` over streams of the embedding program's own.
pub async fn serve_streams<R, W>(
    host: Host,
    principal: Principal,
    streams: (R, W),
    shutdown: Shutdown,
) -> bool
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    serve_lines(host, principal, streams, shutdown).await
}
