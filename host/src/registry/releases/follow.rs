//! Following the pin: what the pinned version holds, made ready to be bound.
//!
//! A version is read whole, and every byte of it held against its hash, before anything of it takes the
//! place of the one in service. Where that fails, the one in service stays, and why is said; it also outlives
//! the manifest that it was first served under, as what was verified needs no store.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawhost_core::catalog::{Origin, Refused, ckp_name};
use clawhost_core::limits::RELEASE_RETRY_MS;
use clawhost_core::manifest::{Definition, DocumentError, Manifest};
use clawhost_core::package::VerifyingKey;
use clawhost_core::release::{Release, Released, ReleasedCode};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{Pin, ReleaseError, Releases};
use crate::engine::{Engine, LoadError, Loaded};
use crate::registry::Sources;
use crate::registry::offer::{Offer, Offered, signed_by};
use crate::registry::own::Own;

/// What hosts serve of the registry.
#[derive(Debug, Default, Clone)]
pub(in crate::registry) struct Served {
    /// The version in service.
    pub(in crate::registry) version: Option<u64>,
    /// Its tools, each by itself, or why one is not served.
    pub(in crate::registry) tools: Vec<Result<Offer, Refused>>,
    /// Its tools that are made of others.
    pub(in crate::registry) composites: Vec<Own>,
    /// Why another one, which is pinned, is not in service.
    pub(in crate::registry) refused: Option<Refused>,
}

/// Looks at the pin as long as it is there.
#[derive(Debug)]
pub(in crate::registry) struct Follower {
    served: watch::Receiver<Option<Arc<Served>>>,
    _task: AbortOnDropHandle<()>,
}

impl Follower {
    pub(in crate::registry) fn start(releases: Releases, sources: &Sources) -> Self {
        let mut load = Load {
            releases,
            engine: Arc::clone(&sources.engine),
            manifest: Arc::clone(&sources.manifest),
            served: Served::default(),
            pin: None,
            failed: None,
        };
        let (tell, served) = watch::channel(None);
        let mut touched = sources.touched.clone();
        let wait = Duration::from_millis(load.releases.asked_each_ms());
        let task = tokio::spawn(async move {
            loop {
                if load.look().await {
                    tell.send_replace(Some(Arc::new(load.served.clone())));
                }
                if let Ok(Err(_)) = timeout(wait, touched.changed()).await {
                    tokio::time::sleep(wait).await;
                }
            }
        });
        Self { served, _task: AbortOnDropHandle::new(task) }
    }

    /// Says whether nothing was taken in of the registry yet, or not what is known of it by now.
    pub(in crate::registry) fn is_looking(&self) -> bool {
        self.served.borrow().is_none() || self.served.has_changed().unwrap_or(false)
    }

    /// Waits until there is something new, and returns it.
    pub(in crate::registry) async fn changed(&mut self) -> Option<Arc<Served>> {
        if self.served.changed().await.is_err() {
            // Its task goes with this value.
            std::future::pending::<()>().await;
        }
        self.served.borrow_and_update().clone()
    }
}

/// A component that was looked at: compiled, or why not; and whose signature it carries.
type Component = (Result<Arc<Loaded>, String>, Vec<VerifyingKey>);

/// A version that was read whole and held against its hash.
#[derive(Debug)]
pub(super) struct Verified {
    pin: Pin,
    release: Release,
    /// Its components, by digest: what the next version has too is not compiled again.
    pub(super) components: BTreeMap<String, Component>,
}

struct Load {
    releases: Releases,
    engine: Arc<Engine>,
    manifest: Arc<Manifest>,
    served: Served,
    /// The version in service.
    pin: Option<Pin>,
    /// What could not be served, and when that was tried.
    failed: Option<(Pin, Instant)>,
}

impl Load {
    /// Brings what is served in step with the pin; says whether that is another thing now.
    async fn look(&mut self) -> bool {
        let pin = match self.releases.pinned().await {
            Ok(Some(pin)) => pin,
            Ok(None) => {
                return self.refuse("no version is pinned: `clawhost registry pin VERSION`");
            }
            Err(error) => return self.fall_back(&error),
        };
        if self.pin.as_ref() == Some(&pin) {
            self.failed = None;
            return self.served.refused.take().is_some();
        }
        let retry = Duration::from_millis(RELEASE_RETRY_MS);
        if self.failed.as_ref().is_some_and(|(of, at)| *of == pin && at.elapsed() < retry) {
            return false;
        }
        match self.load(&pin).await {
            Ok(served) => {
                tracing::info!("version {} of the registry is in service", pin.version);
                (self.served, self.pin, self.failed) = (served, Some(pin), None);
                true
            }
            Err(error) => {
                self.failed = Some((pin, Instant::now()));
                self.fall_back(&error)
            }
        }
    }

    /// Serves what was verified last, under another manifest, where nothing is in service yet.
    fn fall_back(&mut self, error: &ReleaseError) -> bool {
        let last = self.releases.verified.lock().clone().filter(|_| self.pin.is_none());
        if let Some((last, Ok(served))) = last.map(|last| (Arc::clone(&last), self.serve(&last))) {
            (self.served, self.pin) = (served, Some(last.pin.clone()));
        }
        self.refuse(&error.to_string())
    }

    /// Keeps what is in service, and says why it is no other.
    fn refuse(&mut self, reason: &str) -> bool {
        let stays =
            self.served.version.map(|version| format!("; version {version} stays in service"));
        let refused =
            Refused::new("the registry", &(reason.to_owned() + &stays.unwrap_or_default()));
        let is_new = self.served.refused.as_ref() != Some(&refused);
        if is_new {
            tracing::error!("{}", refused.reason);
        }
        self.served.refused = Some(refused);
        is_new
    }

    async fn load(&mut self, pin: &Pin) -> Result<Served, ReleaseError> {
        let verified = Arc::new(self.verify(pin).await?);
        let served = self.serve(&verified)?;
        *self.releases.verified.lock() = Some(verified);
        Ok(served)
    }

    async fn verify(&self, pin: &Pin) -> Result<Verified, ReleaseError> {
        let version = pin.version;
        let broken = |reason: String| ReleaseError::Broken { version, reason };
        let found = self.releases.get(version).await?;
        if found.hash != pin.hash {
            return Err(broken(format!("its hash is {}, and {} is pinned", found.hash, pin.hash)));
        }
        let last = self.releases.verified.lock().clone();
        let known = |digest: &str| last.as_ref()?.components.get(digest)?.0.clone().ok();
        let mut components = BTreeMap::new();
        for code in found.release.tools().iter().filter_map(|tool| tool.code.as_ref()) {
            if !components.contains_key(&code.component) {
                let bytes = self.releases.component(&code.component).await?.map_err(broken)?;
                let known = known(&code.component);
                let component = self.component(code, &bytes, known).await?;
                components.insert(code.component.clone(), component);
            }
        }
        Ok(Verified { pin: pin.clone(), release: found.release, components })
    }

    fn serve(&self, verified: &Verified) -> Result<Served, ReleaseError> {
        let Verified { pin: Pin { version, .. }, release, components } = verified;
        let broken = |reason: String| ReleaseError::Broken { version: *version, reason };
        let said = release.definitions().map_err(broken)?;
        let mut served = Served { version: Some(*version), ..Served::default() };
        for tool in release.tools() {
            let governed = said.get(&ckp_name(&tool.name)).cloned();
            let done = match &tool.code {
                Some(code) => {
                    let offer = self.offer(code, components.get(&code.component), governed);
                    offer.map(|offer| served.tools.push(Ok(offer)))
                }
                None => self.composite(governed).map(|own| served.composites.push(own)),
            };
            served.tools.extend(done.err().map(|reason| Err(refused(tool, &reason))));
        }
        Ok(served)
    }

    fn composite(&self, governed: Option<Arc<Definition>>) -> Result<Own, String> {
        let composite = governed.as_ref().and_then(|said| said.composite.as_ref());
        let composite = composite.ok_or("nothing runs it")?;
        let own = Own::composite(composite, &self.manifest, self.engine.schemas())?;
        Ok(Own { offered: Offered { governed, ..own.offered }, ..own })
    }

    async fn component(
        &self,
        code: &ReleasedCode,
        bytes: &[u8],
        known: Option<Arc<Loaded>>,
    ) -> Result<Component, ReleaseError> {
        let signature = code.signature.as_deref().unwrap_or_default();
        let signed_by = signed_by(&self.manifest, bytes, signature);
        if let Some(loaded) = known {
            return Ok((Ok(loaded), signed_by));
        }
        match self.loaded(&code.component).await {
            Ok(loaded) => Ok((Ok(loaded), signed_by)),
            Err(LoadError::Unusable(reason)) => Ok((Err(reason), signed_by)),
            Err(LoadError::Passing(reason)) => Err(ReleaseError::Store(reason)),
        }
    }

    async fn loaded(&self, digest: &str) -> Result<Arc<Loaded>, LoadError> {
        match self.engine.listed(self.releases.source(digest)) {
            Ok(loaded) => Ok(loaded),
            Err(source) => Ok(self.engine.load_in(self.engine.turn().await?, source).await?.0),
        }
    }

    fn offer(
        &self,
        code: &ReleasedCode,
        component: Option<&Component>,
        governed: Option<Arc<Definition>>,
    ) -> Result<Offer, String> {
        let (loaded, signed_by) = component.cloned().ok_or("its component is gone")?;
        let (loaded, name) = (loaded?, &code.definition.name);
        if !loaded.definitions_as(name).iter().any(|offered| offered.name == *name) {
            return Err("its component offers no such tool".to_owned());
        }
        let document = code.document.as_ref().map(|document| {
            let read = self.manifest.read_sidecar(Path::new(name), document.to_string().as_bytes());
            read.map_err(|all| all.first().map(DocumentError::one_line).unwrap_or_default())
        });
        let offered = Offered::new(&code.definition, self.engine.schemas())?;
        let tools = vec![Offered { beside: document.transpose()?, governed, ..offered }];
        Ok(Offer { origin: Origin::Release, loaded, tools, signed_by, is_pulled: false })
    }
}

fn refused(tool: &Released, reason: &str) -> Refused {
    let Released { name, .. } = tool;
    Refused::new(&Origin::Release.to_string(), &format!("tool `{name}`: {reason}")).of(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_found_before_anybody_waited_for_it_is_still_to_be_taken_in() {
        let (tell, served) = watch::channel(None);
        let task = AbortOnDropHandle::new(tokio::spawn(async {}));
        let mut follower = Follower { served, _task: task };
        assert!(follower.is_looking());
        tell.send_replace(Some(Arc::default()));
        assert!(follower.is_looking());
        assert!(follower.changed().await.is_some() && !follower.is_looking());
    }
}
