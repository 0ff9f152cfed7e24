//! Loading one file of the drop-in directory: its documents, its bytes, its code.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use cap_std::fs::Dir;
use clawhost_core::catalog::Origin;
use clawhost_core::limits::{COMPONENT_BYTES_MAX, DOCUMENT_BYTES_MAX, SIGNATURE_BYTES_MAX};
use clawhost_core::manifest::{DocumentError, Manifest, ToolBinding};
use clawhost_core::package::VerifyingKey;

use super::bridge::Pins;
use super::drop_in::{self, Fingerprint, Status};
use super::locked;
use super::offer::{Offer, signed_by};
use crate::engine::{Engine, LoadError, Source, background};

/// Where files lie, and what loads them.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) dir: Arc<Dir>,
    pub(super) path: PathBuf,
    pub(super) engine: Arc<Engine>,
    pub(super) manifest: Arc<Manifest>,
    /// What was accepted of files; nothing where nobody serves them.
    pub(super) pins: Option<Pins>,
}

/// One file that is loaded.
pub(super) struct Job {
    pub(super) place: Place,
    pub(super) name: String,
    pub(super) print: Fingerprint,
}

impl Job {
    pub(super) async fn load(self: &Arc<Self>) -> Result<Status, LoadError> {
        if let Some(reason) = self.print.fault() {
            return Err(LoadError::Unusable(reason));
        }
        let Place { engine, pins, .. } = &self.place;
        let mut turn = engine.turn().await?;
        let (this, mut sidecars) = (Arc::clone(self), Ok(Ok(Vec::new())));
        if self.print.sidecars().next().is_some() {
            (sidecars, turn) = background(turn, move || this.sidecars()).await?;
        }
        let sidecars = match sidecars? {
            Ok(sidecars) => sidecars,
            Err(problems) => return Ok(Status::Wrong(problems)),
        };
        let (this, found) = (Arc::clone(self), Arc::new(OnceLock::new()));
        let tell = Arc::clone(&found);
        let read = move || {
            let bytes = drop_in::read(&this.place.dir, &this.name, COMPONENT_BYTES_MAX)?;
            let is_pulled = match &this.place.manifest.locked {
                Some(folder) => locked::check(folder, &this.name, &bytes)?,
                None => false,
            };
            drop(tell.set((this.signers(&bytes)?, is_pulled)));
            Ok(bytes.into())
        };
        let origin = Origin::DropIn { file: self.name.clone() };
        let mut offer = Offer::load_in(engine, turn, origin, Source::new(read)).await?;
        (offer.signed_by, offer.is_pulled) = found.get().cloned().unwrap_or_default();
        self.check(&sidecars, &offer)?;
        Ok(match pins {
            Some(pins) => Status::accepted(pins, offer, sidecars).await,
            None => Status::Ready { offer, sidecars },
        })
    }

    /// Checks that the documents bind what the component offers, and nothing twice.
    fn check(&self, sidecars: &[ToolBinding], offer: &Offer) -> Result<(), String> {
        let offered: Vec<&str> = offer.tools.iter().map(|tool| tool.ckp_name.as_str()).collect();
        let is_stray = |binding: &&ToolBinding| !offered.contains(&binding.name.as_str());
        if let Some(stray) = sidecars.iter().find(is_stray) {
            return Err(format!(
                "{} binds a tool `{}`; the component offers {}",
                stray.at,
                stray.name,
                offered.join(", ")
            ));
        }
        let twice = |binding: &&ToolBinding| {
            self.place.manifest.tools.iter().any(|bound| bound.name == binding.name)
        };
        if let Some(binding) = sidecars.iter().find(twice) {
            return Err(format!(
                "{} binds `{}`, which the manifest binds too: keep one of them",
                binding.at, binding.name
            ));
        }
        Ok(())
    }

    /// Returns whose signature lies beside the file, of these very bytes.
    fn signers(&self, bytes: &[u8]) -> Result<Vec<VerifyingKey>, LoadError> {
        let Place { dir, manifest, .. } = &self.place;
        let wanted = self.print.signature().filter(|_| !manifest.signing_keys().is_empty());
        let Some(name) = wanted else { return Ok(Vec::new()) };
        let text = drop_in::read(dir, name, SIGNATURE_BYTES_MAX)?;
        Ok(signed_by(manifest, bytes, &String::from_utf8_lossy(&text)))
    }

    /// Reads the documents: what they bind, or every problem of them.
    fn sidecars(&self) -> Result<Result<Vec<ToolBinding>, Vec<DocumentError>>, LoadError> {
        let (mut bound, mut problems) = (Vec::new(), Vec::new());
        for name in self.print.sidecars() {
            let Place { dir, path, manifest, .. } = &self.place;
            let bytes = drop_in::read(dir, name, DOCUMENT_BYTES_MAX as u64)?;
            match manifest.read_sidecar(&path.join(name), &bytes) {
                Ok(binding) => bound.push(binding),
                Err(more) => problems.extend(more),
            }
        }
        Ok(if problems.is_empty() { Ok(bound) } else { Err(problems) })
    }
}
