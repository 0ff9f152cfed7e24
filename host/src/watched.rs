//! Values that others may watch.

use tokio::sync::watch;

/// Changes what is watched. Where nobody watches, nobody is told: that takes longer than reading a request.
pub(crate) fn change<T>(watched: &watch::Sender<T>, change: impl FnOnce(&mut T)) {
    watched.send_if_modified(|value| {
        change(value);
        watched.receiver_count() > 0
    });
}
