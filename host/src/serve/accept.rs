//! Taking connections until it is time to stop, each in a task of its own.
//!
//! Deliberately absent: how many there may be at once. Whoever hands them over waits for a place.

use std::io;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

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
