//! What is read before there is a host: documents, the runtime file, the lock file, and registries.

use std::path::{Path, PathBuf};

use clawhost_core::error::exit;
use clawhost_core::limits::{COMPONENT_BYTES_MAX, DOCUMENT_BYTES_MAX};
use clawhost_core::manifest::{
    self, DocumentError, Documents, Manifest, OneDocument, RegistrySettings, Settings, Surroundings,
};
use clawhost_core::package::Lock;

use super::keys::opened_secrets;
use crate::cli::args::HostArgs;
use crate::cli::fail::{Blame as _, Fail};
use crate::config;
use crate::distribution::Distribution;
use crate::engine::LoadError;
use crate::registry::{
    DEFAULT_MANIFEST, FileDocuments, LOCK_FILE, Registries, built_in_tools, contexts, read_lock,
};
use crate::regular;
use crate::secrets::Secrets;
use crate::upstream::http::HttpClient;

/// The manifest `run` looks for where no PATH is given.
pub(in crate::cli) const MANIFEST_NAME: &str = "claw.yaml";

/// Reads and checks the runtime file and the documents, together.
pub(in crate::cli) fn documents(
    paths: &[PathBuf],
    places: &HostArgs,
) -> Result<(Manifest, Settings), Vec<DocumentError>> {
    documents_from(&FileDocuments, paths, places)
}

/// As [`documents`], with the definition files that `docs` has.
pub(in crate::cli) fn documents_from(
    docs: &dyn Documents,
    paths: &[PathBuf],
    places: &HostArgs,
) -> Result<(Manifest, Settings), Vec<DocumentError>> {
    let mut settings = config(paths, places.config.as_deref())?;
    let mut manifest = manifest(paths, &settings.registries)?;
    settings.apply(&mut manifest)?;
    settings.define(docs, &mut manifest)?;
    if let Some(folder) = &places.context {
        contexts(folder, &mut manifest)?;
        settings.admit(manifest.agents.keys().cloned());
    }
    let is_folder = |folder: &Path| places.tools.is_some() || folder.is_dir();
    match settings.tools.missing(is_folder, &built_in_tools()) {
        missing if missing.is_empty() => Ok((manifest, settings)),
        missing => Err(missing),
    }
}

/// Reads and checks documents, asking `registries` for what they have; without any documents,
/// the embedded default.
pub(in crate::cli) fn manifest(
    paths: &[PathBuf],
    registries: &[RegistrySettings],
) -> Result<Manifest, Vec<DocumentError>> {
    let components: Vec<_> = paths.iter().filter_map(|path| component(path)).collect();
    if !components.is_empty() {
        return Err(components);
    }
    let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let profiles = manifest::builtin_profiles(&directory)?;
    let around = Surroundings { directory: &directory, profiles: &profiles };
    let folder = beside(paths);
    let mut manifest = if paths.is_empty() {
        let default = OneDocument(DEFAULT_MANIFEST.as_bytes().to_vec());
        manifest::load(&default, &["<embedded default>".into()], around)?
    } else {
        let registries = ask(registries).map_err(|reason| {
            vec![DocumentError::whole_file(Path::new("clawhost.yaml"), reason, None)]
        })?;
        let registries = registries.pinned(lock(&folder)?);
        manifest::load(&registries.beside(&FileDocuments), paths, around)?
    };
    manifest.locked = Some(folder);
    Ok(manifest)
}

/// Refuses what is no document by its name.
fn component(path: &Path) -> Option<DocumentError> {
    path.extension().filter(|of| ["wasm", "wat"].iter().any(|name| of == name))?;
    let help = "name its folder with --tools DIR; `clawhost inspect` says what it would need";
    Some(DocumentError::whole_file(path, "this is a component and no document", Some(help)))
}

fn ask(registries: &[RegistrySettings]) -> Result<Registries, String> {
    Registries::new(registries, HttpClient::system())
}

/// Reads the lock file that lies in `folder`.
pub(in crate::cli) fn lock(folder: &Path) -> Result<Lock, Vec<DocumentError>> {
    read_lock(folder).map_err(|error| {
        let help = match error {
            LoadError::Passing(_) => "let yourself read the file and its folder",
            LoadError::Unusable(_) => {
                "mend it by hand, or delete it: `clawhost pull REFERENCE` writes it anew"
            }
        };
        vec![DocumentError::whole_file(&folder.join(LOCK_FILE), error.to_string(), Some(help))]
    })
}

/// Returns what `pull` and `push` ask, as whom the runtime file says.
pub(in crate::cli) fn distribution(
    settings: &Settings,
    state: Option<&Path>,
) -> Result<Distribution, Fail> {
    let registries = ask(&settings.registries).or_fail(exit::DOCUMENT)?;
    let secrets = match settings.oci.values().any(|one| one.account.is_some()) {
        true => opened_secrets(settings, state)?,
        false => Secrets::none(),
    };
    Ok(Distribution::new(HttpClient::system(), settings.oci.clone(), registries, secrets))
}

/// `claw.yaml` in the current directory stands in for no path at all.
pub(in crate::cli) fn with_default(paths: &[PathBuf]) -> Vec<PathBuf> {
    let default = PathBuf::from(MANIFEST_NAME);
    if paths.is_empty() && default.symlink_metadata().is_ok() {
        vec![default]
    } else {
        paths.to_vec()
    }
}

/// Reads the runtime file: `explicit`, else the one beside the first of `paths`, else the one of the
/// current directory.
pub(in crate::cli) fn config(
    paths: &[PathBuf],
    explicit: Option<&Path>,
) -> Result<Settings, Vec<DocumentError>> {
    config::load(explicit, Some(&beside(paths)), config::environment())
}

/// Returns the folder of what belongs to the first of `paths`: its own, or the current directory.
pub(in crate::cli) fn beside(paths: &[PathBuf]) -> PathBuf {
    match paths.first().map(|path| (path, path.parent())) {
        Some((path, _)) if path.is_dir() => path.clone(),
        Some((_, Some(folder))) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Reads a component file, bounded.
pub(in crate::cli) fn read_file(path: &Path) -> Result<Vec<u8>, Fail> {
    regular::read(path, COMPONENT_BYTES_MAX).map_err(|error| {
        let here = std::env::current_dir().unwrap_or_default();
        let hint =
            format!("give a .wasm or .wat file; {} is where it was looked for", here.display());
        Fail::usage_at(path, error, &hint)
    })
}

/// Reads any other file that was named, bounded; `hint` says which would be right.
pub(in crate::cli) fn read_document(path: &Path, hint: &str) -> Result<Vec<u8>, Fail> {
    let read = regular::read(path, DOCUMENT_BYTES_MAX as u64);
    read.map_err(|error| Fail::usage_at(path, error, hint))
}
