//! What a tools folder would serve, without serving it.
//!
//! Its components are loaded as for a catalog and asked what they offer, so that whatever is wrong
//! with them or with their documents is known, each at its place. Deliberately absent: whether
//! their profiles grant what they import, which the catalog says.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use clawhost_core::manifest::{DocumentError, Manifest, ToolBinding};

use super::bind::{Claims, listed, taken};
use super::drop_in::{self, Status};
use super::job::{Job, Place};
use super::offer::Offer;
use crate::engine::Engine;

/// What is in a tools folder.
#[derive(Debug, Default)]
pub struct Preview {
    /// Every tool that it offers; only its name where it has no document.
    pub tools: Vec<ToolBinding>,
    /// Every problem of every file.
    pub problems: Vec<DocumentError>,
}

/// A file whose component and documents are in order: its name, what it offers, and its documents.
type Sound = (String, Offer, Vec<ToolBinding>);

/// Looks at every file of the tools folder `path`; `engine` compiles its components. Of built-in tools it may have those
/// that are `replaceable`.
pub async fn preview(
    path: &Path,
    manifest: Arc<Manifest>,
    engine: Arc<Engine>,
    replaceable: &BTreeSet<String>,
) -> Preview {
    let mut found = Preview::default();
    let (dir, listing) = match drop_in::open(path) {
        Ok((dir, listing)) => (Arc::new(dir), listing),
        Err(error) => {
            found.refuse(path, &format!("the tools folder cannot be read: {error}"));
            return found;
        }
    };
    let place = Place { dir, path: path.to_owned(), engine, manifest, pins: None };
    let mut sound = Vec::new();
    for (name, print) in listing.components {
        let job = Job { place: place.clone(), name, print };
        sound.extend(found.look_into(&Arc::new(job)).await);
    }
    found.compare(&place, replaceable, sound);
    for stray in &listing.strays {
        found.refuse(&path.join(stray), drop_in::STRAY);
    }
    found
}

impl Preview {
    async fn look_into(&mut self, job: &Arc<Job>) -> Option<Sound> {
        match job.load().await {
            Ok(Status::Ready { offer, sidecars }) => {
                return Some((job.name.clone(), offer, sidecars));
            }
            Ok(Status::Wrong(problems)) => self.problems.extend(problems),
            Ok(Status::Loading | Status::Waiting { .. } | Status::Failed(_)) => {}
            Err(error) => self.refuse(&job.place.path.join(&job.name), &error.to_string()),
        }
        None
    }

    /// Takes the tools of files, and refuses the names that are not theirs to have.
    fn compare(&mut self, place: &Place, replaceable: &BTreeSet<String>, files: Vec<Sound>) {
        let offers = files.iter().map(|(name, offer, _)| (name.as_str(), Some(offer)));
        let claims = Claims::default().renewed(offers);
        for (file, offer, sidecars) in files {
            for tool in &offer.tools {
                let name = &tool.ckp_name;
                let has_document = sidecars.iter().any(|bound| bound.name == *name);
                let of_manifest = listed(&place.manifest, name).filter(|_| !has_document);
                let refusal = || {
                    let reason = claims.refusal(&file, (&offer, tool), of_manifest)?;
                    Some(format!("tool `{}`: {reason}", tool.definition.name))
                };
                let taken = taken(&place.manifest, replaceable, &tool.definition.name);
                if let Some(reason) = taken.or_else(refusal) {
                    self.refuse(&place.path.join(&file), &reason);
                }
                let bare = || ToolBinding { name: name.clone(), ..ToolBinding::default() };
                self.tools.extend((!has_document).then(bare));
            }
            self.tools.extend(sidecars);
        }
    }

    fn refuse(&mut self, file: &Path, reason: &str) {
        self.problems.push(DocumentError::whole_file(file, reason, None));
    }
}
