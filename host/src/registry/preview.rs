//! What a tools folder would serve, without serving it.
//!
//! Its components are loaded as for a catalog and asked what they offer, so that whatever is wrong
//! with them or with their documents is known, each at its place. Deliberately absent: whether
//! their profiles grant what they import, which the catalog says.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clawhost_core::catalog::{CatalogError, ckp_name};
use clawhost_core::manifest::{DocumentError, Manifest, ToolBinding};

use super::drop_in::{self, Status};
use super::offer::Offer;
use super::watch::{Job, Place};
use crate::engine::Engine;

/// What is in a tools folder.
#[derive(Debug, Default)]
pub struct Preview {
    /// Every tool that it offers; only its name where it has no document.
    pub tools: Vec<ToolBinding>,
    /// Every problem of every file.
    pub problems: Vec<DocumentError>,
    /// Who of them offers each of the names.
    first: BTreeMap<String, String>,
}

/// Looks at every file of the tools folder `path`; `engine` compiles its components.
pub async fn preview(path: &Path, manifest: Arc<Manifest>, engine: Arc<Engine>) -> Preview {
    let mut found = Preview::default();
    let (dir, listing) = match drop_in::open(path) {
        Ok((dir, listing)) => (Arc::new(dir), listing),
        Err(error) => {
            found.refuse(path, &format!("the tools folder cannot be read: {error}"));
            return found;
        }
    };
    let place = Place { dir, path: path.to_owned(), engine, manifest, pins: None };
    for (name, print) in listing.components {
        let job = Job { place: place.clone(), name, print };
        found.look_into(&Arc::new(job)).await;
    }
    for stray in &listing.strays {
        found.refuse(&path.join(stray), drop_in::stray());
    }
    found
}

impl Preview {
    async fn look_into(&mut self, job: &Arc<Job>) {
        match job.load().await {
            Ok(Status::Ready { offer, sidecars }) => {
                self.compare(&job.place.path.join(&job.name), &offer);
                let names = offer.tools.iter().map(|tool| ckp_name(&tool.definition.name));
                let bare = names.filter(|name| sidecars.iter().all(|bound| bound.name != *name));
                let bare: Vec<_> =
                    bare.map(|name| ToolBinding { name, ..ToolBinding::default() }).collect();
                self.tools.extend(bare.into_iter().chain(sidecars));
            }
            Ok(Status::Wrong(problems)) => self.problems.extend(problems),
            Ok(Status::Loading | Status::Waiting { .. } | Status::Failed(_)) => {}
            Err(error) => self.refuse(&job.place.path.join(&job.name), &error.to_string()),
        }
    }

    /// Refuses a name that another file has as well: neither of them serves it.
    fn compare(&mut self, file: &Path, offer: &Offer) {
        let second = offer.origin.to_string();
        for tool in &offer.tools {
            let first = self.first.entry(tool.ckp_name.clone()).or_insert_with(|| second.clone());
            if *first != second {
                let (name, first) = (tool.definition.name.clone(), first.clone());
                let twice = CatalogError::Collision { name, first, second: second.clone() };
                self.refuse(file, &twice.to_string());
            }
        }
    }

    fn refuse(&mut self, file: &Path, reason: &str) {
        self.problems.push(DocumentError::whole_file(file, reason, None));
    }
}
