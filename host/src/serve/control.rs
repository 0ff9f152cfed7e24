//! The control socket: the operator's methods for the command line, one JSON-RPC request a line.
//!
//! Whoever gets as far as this is the operator: the socket is in the operator's folder, and the system
//! says that the operator's own user connects. Deliberately absent: what the methods do, which
//! `operator` knows.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::limits::{CONTROL_CONNECTIONS_MAX, CONTROL_IDLE_MS, CONTROL_MESSAGE_BYTES_MAX};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::accept::accept_all;
use super::message::{Fault, INVALID_REQUEST};
use super::operator::Operator;
use crate::host::Host;
use crate::lines::{Line, Lines};
use crate::state::ControlSocket;

/// Serves `socket` until it is told to stop. While it does, people can be asked.
pub fn serve_control(host: Host, socket: ControlSocket, stop: CancellationToken) -> JoinHandle<()> {
    // From now on, not from the task's first turn on.
    let reachable = host.approvals().reach().open();
    let control = Arc::new(Operator::new(host));
    tokio::spawn(async move {
        accept_control(&control, &socket, &stop).await;
        drop(reachable);
    })
}

async fn accept_control(control: &Arc<Operator>, socket: &ControlSocket, stop: &CancellationToken) {
    let places = Arc::new(Semaphore::new(CONTROL_CONNECTIONS_MAX));
    let next = || async {
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        Ok((socket.accept().await?, place))
    };
    let serve = |(stream, place)| {
        let control = Arc::clone(control);
        async move {
            converse(&control, stream).await;
            drop(place);
        }
    };
    // Dropping the connections ends them.
    drop(accept_all(stop, next, serve).await);
}

/// Answers line after line until the other side has said all, or nothing for long.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(operator: &Operator, stream: S) {
    let (input, mut output) = tokio::io::split(stream);
    let mut lines = Lines::new(BufReader::new(input), CONTROL_MESSAGE_BYTES_MAX);
    let patience = Duration::from_millis(CONTROL_IDLE_MS);
    while let Ok(Ok(Some(line))) = timeout(patience, lines.next()).await {
        let answer = match line {
            Line::TooLong(..) => {
                Some(Fault::new(INVALID_REQUEST, "the message is too long").to_line())
            }
            Line::Text(text) => operator.answer(&text, |answer| answer).await,
        };
        let Some(mut answer) = answer else { continue };
        answer.push(b'\n');
        if !matches!(timeout(patience, output.write_all(&answer)).await, Ok(Ok(()))) {
            return;
        }
    }
}
