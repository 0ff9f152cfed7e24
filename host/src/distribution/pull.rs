//! From a reference to the component that it means now.

use std::sync::Arc;

use bytes::Bytes;
use clawhost_core::digest;
use clawhost_core::limits::{COMPONENT_BYTES_MAX, SIGNATURE_BYTES_MAX};
use clawhost_core::manifest::{Documents as _, RegistryError};
use clawhost_core::package::{OciReference, Reference, SIGNATURE_ENDING, WebReference, artifact};
use clawhost_core::uri::RegistryUri;
use url::Url;

use super::{Distribution, Trouble};
use crate::registry::FileDocuments;
use crate::upstream::fetch::{Ask, found};

/// What every binary of WebAssembly begins with.
const MAGIC: &[u8] = b"\0asm";

/// A component, and where it was.
#[derive(Debug, Clone)]
pub(crate) struct Pulled {
    pub(crate) bytes: Bytes,
    /// `sha256:…` of it.
    pub(crate) digest: String,
    /// Where exactly it was.
    pub(crate) source: String,
    /// `sha256:…` of the document that came with it.
    pub(crate) document: Option<String>,
    /// The text of its signature.
    pub(crate) signature: Option<String>,
}

impl Pulled {
    fn new(bytes: Bytes, source: String) -> Self {
        let digest = digest::of_bytes(&bytes);
        Self { bytes, digest, source, document: None, signature: None }
    }

    /// Returns the ending that its file has to have.
    pub(crate) fn ending(&self) -> &'static str {
        if self.bytes.starts_with(MAGIC) { ".wasm" } else { ".wat" }
    }

    fn check(self, from: &dyn std::fmt::Display) -> Result<Self, Trouble> {
        if self.bytes.starts_with(MAGIC) {
            return Ok(self);
        }
        Err(Trouble::Unsound(format!("{from}: what is there is no WebAssembly")))
    }
}

impl Distribution {
    /// Fetches what `reference` means now, and its signature where `signed` wants to know it.
    pub(crate) async fn pull(
        &self,
        reference: &Reference,
        signed: bool,
    ) -> Result<Pulled, Trouble> {
        match reference {
            Reference::Oci(oci) => self.pull_oci(oci).await,
            Reference::Registry(uri) => self.pull_registry(uri),
            Reference::Web(web) => self.pull_web(web, signed).await,
        }
    }

    async fn pull_oci(&self, reference: &OciReference) -> Result<Pulled, Trouble> {
        let mut registry = self.registry(reference, "pull")?;
        let none = || Trouble::Server(format!("{reference}: the registry does not have it"));
        let (manifest, digest) = registry.manifest().await?.ok_or_else(none)?;
        let unsound = |reason| Trouble::Unsound(format!("{reference}: {reason}"));
        let layer = artifact::read(&manifest).map_err(unsound)?;
        if layer.bytes > COMPONENT_BYTES_MAX {
            let reason = format!(
                "it has {} bytes, and a component at most {COMPONENT_BYTES_MAX}",
                layer.bytes
            );
            return Err(unsound(reason));
        }
        let bytes = registry.blob(&layer.digest, layer.bytes).await?;
        let pulled = Pulled::new(bytes, reference.at(&digest).to_string());
        let fits = |text: &String| text.len() as u64 <= SIGNATURE_BYTES_MAX;
        Pulled { signature: layer.signature.filter(fits), ..pulled }.check(reference)
    }

    /// A document that comes with a component is the registry's word; it is pinned and not placed.
    fn pull_registry(&self, uri: &RegistryUri) -> Result<Pulled, Trouble> {
        let package =
            self.registries.beside(&FileDocuments).registry(uri).map_err(|error| match error {
                RegistryError::Failed { registry, reason } => {
                    Trouble::Server(format!("{uri}: the registry `{registry}` {reason}"))
                }
                RegistryError::NotConfigured => Trouble::Server(format!(
                    "{uri}: no registry is configured: name one under `registries` in clawhost.yaml"
                )),
                RegistryError::NotFound(asked) => {
                    Trouble::Server(format!("{uri}: no registry has it (asked: {asked})"))
                }
            })?;
        let none = || Trouble::Unsound(format!("{uri} has no component: name it in a manifest"));
        let component = package.component.ok_or_else(none)?;
        let bytes = Bytes::copy_from_slice(&Arc::clone(&component.bytes));
        let pulled = Pulled::new(bytes, format!("registry {}", package.registry));
        let signature = component.signature;
        Ok(Pulled { document: Some(package.digest), signature, ..pulled })
    }

    async fn pull_web(&self, web: &WebReference, signed: bool) -> Result<Pulled, Trouble> {
        let url = Url::parse(&web.url).map_err(|error| Trouble::Server(error.to_string()))?;
        let none = || Trouble::Server(format!("{url}: it is not there"));
        let bytes = self.get(&url, COMPONENT_BYTES_MAX).await?.ok_or_else(none)?;
        let mut pulled = Pulled::new(bytes, web.url.clone()).check(&url)?;
        if signed {
            let mut beside = url.clone();
            beside.set_path(&format!("{}{SIGNATURE_ENDING}", url.path()));
            let text = self.get(&beside, SIGNATURE_BYTES_MAX).await?;
            pulled.signature = text.map(|text| String::from_utf8_lossy(&text).into_owned());
        }
        Ok(pulled)
    }

    async fn get(&self, url: &Url, bytes_max: u64) -> Result<Option<Bytes>, Trouble> {
        let answer = self.web.follow(Ask::get(url.clone(), bytes_max)).await?;
        Ok(found(url, answer).await?)
    }
}
