//! Both dialects over standard input and output: the parent process is an agent's client, and for
//! `claw.*` methods the operator as well.
//!
//! Standard output carries protocol only. Deliberately absent: logging, and any word to a person;
//! both belong to standard error and to the command line.

use std::future::pending;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

pub use clawhost_core::manifest::STDIO_PRINCIPAL;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest};

use super::Shutdown;
use super::framer::serve_lines;
use crate::host::{Host, Principal};

/// Serves `host` on standard input and output until the input ends and every accepted request is
/// answered, the output breaks, or it is told to shut down and the grace is over. Behind the end of
/// the input calls end at once where nobody reads the output.
///
/// Where both streams are pipes on Linux, no thread is involved; elsewhere a read that waits on a
/// terminal may outlive this call, so the process should end by itself afterwards.
///
/// Says whether anybody ever spoke.
pub async fn serve_stdio(host: Host, shutdown: Shutdown) -> bool {
    let principal = Principal(STDIO_PRINCIPAL.to_owned());
    let unread = unread(io::stdout().as_fd().try_clone_to_owned());
    serve_lines(host, principal, rmcp::transport::stdio_pipes(), unread, shutdown).await
}

/// As [`serve_stdio`], for `principal` over streams of the embedding program's own. That nobody
/// reads them is found out by writing.
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
    serve_lines(host, principal, streams, pending(), shutdown).await
}

/// Waits until nobody reads what is written to `output`; for ever where that cannot be told, as of a file.
#[expect(
    deprecated,
    reason = "what is handed over is owned, so it stays open as long as it is watched; what replaces it is unsafe code"
)]
async fn unread(output: io::Result<OwnedFd>) {
    let watched = output.and_then(|output| AsyncFd::with_interest(output, Interest::WRITABLE));
    if let Ok(output) = watched {
        while let Ok(mut event) = output.ready(Interest::WRITABLE).await {
            if event.ready().is_write_closed() {
                return;
            }
            event.clear_ready();
        }
    }
    pending().await
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_reader_that_is_gone_is_found_out_without_writing() {
        let (pipe, ours) = io::pipe().unwrap();
        let (socket, theirs) = UnixStream::pair().unwrap();
        let mut pipe_unread = Box::pin(unread(Ok(ours.into())));
        let mut socket_unread = Box::pin(unread(Ok(theirs.into())));
        for _ in 0..10 {
            assert!((&mut pipe_unread).now_or_never().is_none());
            assert!((&mut socket_unread).now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        drop((pipe, socket));
        pipe_unread.await;
        socket_unread.await;
    }
}
