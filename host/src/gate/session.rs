//! What a caller's session settled when it began.

use std::ops::Deref;

use clawhost_core::manifest::SessionManifest;

use crate::sandbox::fs::FolderBounds;
use crate::sandbox::look_up;

/// A session's manifest, and where the paths of its sandbox lead. They are looked up once, so that
/// no later link moves them.
#[derive(Debug)]
pub struct SessionTerms {
    manifest: SessionManifest,
    /// Why there are none, where a path cannot be looked up: nothing then runs under that sandbox.
    places: Option<Result<FolderBounds, String>>,
}

impl SessionTerms {
    /// Settles a session of that manifest.
    pub fn new(manifest: SessionManifest) -> Self {
        let places = manifest.sandbox.as_ref().map(|profile| look_up(&profile.grants(None)));
        Self { manifest, places }
    }

    /// Returns where the paths of its own sandbox lead, where it has one of that name.
    pub(super) fn places(&self, profile: &str) -> Option<&Result<FolderBounds, String>> {
        let own = self.manifest.sandbox.as_ref()?;
        self.places.as_ref().filter(|_| own.name == profile)
    }
}

impl Deref for SessionTerms {
    type Target = SessionManifest;

    fn deref(&self) -> &SessionManifest {
        &self.manifest
    }
}
