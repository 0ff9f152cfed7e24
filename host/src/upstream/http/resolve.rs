//! Looking names up: once a request, and the answer is what the rules judge.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use clawhost_core::limits::EGRESS_LOOKUPS_MAX;
use tokio::sync::Semaphore;

/// A running look-up.
pub type Lookup = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Turns a name into addresses.
pub trait Resolver: fmt::Debug + Send + Sync {
    /// Looks `name` up: lower-case ASCII, without a trailing dot, never an address.
    fn resolve(&self, name: &str) -> Lookup;
}

/// The system's resolver, with a bound on look-ups at the same time.
#[derive(Debug)]
pub struct SystemResolver {
    free: Arc<Semaphore>,
}

impl SystemResolver {
    /// Returns a resolver that runs at most [`EGRESS_LOOKUPS_MAX`] look-ups at once.
    pub fn new() -> Self {
        Self { free: Arc::new(Semaphore::new(EGRESS_LOOKUPS_MAX)) }
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new()
    }
}

impl Resolver for SystemResolver {
    fn resolve(&self, name: &str) -> Lookup {
        let free = Arc::clone(&self.free);
        let name = name.to_owned();
        Box::pin(async move {
            let permit = free.acquire_owned().await.map_err(io::Error::other)?;
            // A task of its own: the system's look-up cannot be cancelled, so its permit must
            // outlive a caller who stopped waiting.
            let running = tokio::spawn(async move {
                #[expect(clippy::disallowed_methods, reason = "every address it finds is checked")]
                let found = tokio::net::lookup_host((name.as_str(), 0)).await;
                drop(permit);
                found.map(|addresses| addresses.map(|address| address.ip()).collect())
            });
            running.await.map_err(io::Error::other)?
        })
    }
}
