//! Components from elsewhere, into the tools folder and out of it: `clawhost pull` and `clawhost push`.
//!
//! Everything is bounded, compared with its digest before it is written, and written in one step;
//! what a reference was is kept in `clawhost.lock`. All of it goes through the one checked way out.
//! Deliberately absent: a cache, indexes of several platforms, uploads in pieces, and trust: what
//! was pulled is a dropped-in component like any other and runs under `none` until a document of
//! the operator's grants it something.

mod auth;
mod folder;
mod oci;
mod outline;
mod pull;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clawhost_core::limits::DISTRIBUTION_MS;
use clawhost_core::manifest::OciSettings;
use clawhost_core::package::OciReference;

pub(crate) use folder::{ToolsFolder, change_lock};
pub(crate) use oci::Registry;
pub(crate) use outline::outline;
pub(crate) use pull::Pulled;

use crate::registry::Registries;
use crate::secrets::Secrets;
use crate::upstream::fetch::{Unfetched, Web};
use crate::upstream::http::HttpClient;

/// Why something was not pulled or pushed, by who is to blame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// It is not what was asked for, locked or signed; what would accept it all the same.
    #[error("{reason}")]
    Refused { reason: String, hint: &'static str },
    /// A server could not be asked, or has something else.
    #[error("{0}")]
    Server(String),
    /// What is there is no component, or no lock file.
    #[error("{0}")]
    Unsound(String),
}

impl From<Unfetched> for Trouble {
    fn from(Unfetched(reason): Unfetched) -> Self {
        Self::Server(reason)
    }
}

/// Who is asked, and as whom.
#[derive(Debug)]
pub(crate) struct Distribution {
    web: Web,
    oci: BTreeMap<String, OciSettings>,
    registries: Registries,
    secrets: Secrets,
}

impl Distribution {
    /// Returns what asks through `client`, for at most [`DISTRIBUTION_MS`] from now.
    pub(crate) fn new(
        client: HttpClient,
        oci: BTreeMap<String, OciSettings>,
        registries: Registries,
        secrets: Secrets,
    ) -> Self {
        let until = Instant::now() + Duration::from_millis(DISTRIBUTION_MS);
        Self { web: Web { client, until }, oci, registries, secrets }
    }

    /// Returns the registry of `reference`, to be asked for `actions`: `pull`, or `pull,push`.
    pub(crate) fn registry<'a>(
        &'a self,
        reference: &'a OciReference,
        actions: &str,
    ) -> Result<Registry<'a>, Trouble> {
        Registry::open(self, reference, actions)
    }
}
