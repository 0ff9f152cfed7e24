//! What is to be a version: components with what lies beside them, and definition files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use clawhost_core::catalog::ckp_name;
use clawhost_core::digest;
use clawhost_core::limits::{
    COMPONENT_BYTES_MAX, DOCUMENT_BYTES_MAX, REGISTRY_COMPONENTS_BYTES_MAX, SIGNATURE_BYTES_MAX,
};
use clawhost_core::manifest::{DocumentError, Governance, unbound};
use clawhost_core::release::{Release, Released, ReleasedCode};
use serde_json::{Map, Value};

use crate::engine::{Engine, check};
use crate::registry::builtin::built_in_names;
use crate::registry::drop_in::{self, Fingerprint};
use crate::registry::offer::Offered;
use crate::regular;

/// A version that was not kept yet.
#[derive(Debug)]
pub struct Seed {
    /// What it holds.
    pub release: Release,
    /// The components of its tools: as they were signed, or in binary form.
    pub components: Vec<Vec<u8>>,
    /// What was said of tools that come with the host, by their CKP names: no version holds these.
    pub left_out: Vec<String>,
}

/// Reads folders of components with their documents and signatures, as the tools folder has them, single
/// components, and definition files. Components are asked on `engine`, in an empty sandbox, what they offer.
///
/// # Errors
/// Every problem of every file.
pub async fn gather(paths: &[PathBuf], engine: Arc<Engine>) -> Result<Seed, Vec<DocumentError>> {
    let mut gathered = Gathered {
        engine,
        tools: Vec::new(),
        components: BTreeMap::new(),
        said: Vec::new(),
        problems: Vec::new(),
    };
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            gathered.folder(path, None).await;
        } else if drop_in::stem(&name).is_some() {
            gathered.folder(path.parent().unwrap_or(path), Some(&*name)).await;
        } else {
            gathered.definitions(path);
        }
    }
    gathered.finish(paths.first().map(PathBuf::as_path).unwrap_or_else(|| Path::new("")))
}

struct Gathered {
    engine: Arc<Engine>,
    tools: Vec<Released>,
    components: BTreeMap<String, Vec<u8>>,
    /// What each definition file says of each tool.
    said: Vec<(PathBuf, String, Map<String, Value>)>,
    problems: Vec<DocumentError>,
}

impl Gathered {
    /// Takes every component of a folder, or the one of that name.
    async fn folder(&mut self, path: &Path, only: Option<&str>) {
        let path = if path == Path::new("") { Path::new(".") } else { path };
        let (dir, listing) = match drop_in::open(path) {
            Ok(found) => found,
            Err(error) => return self.problems.push(wrong(path, error)),
        };
        let is_meant = |name: &String| only.is_none_or(|only| only == name);
        let components: Vec<_> =
            listing.components.iter().filter(|(name, _)| is_meant(name)).collect();
        if components.is_empty() {
            let file = only.map_or_else(|| path.to_owned(), |name| path.join(name));
            self.problems.push(wrong(&file, "there is no component, `.wasm` or `.wat`"));
        }
        for (name, print) in components {
            if let Err(problems) = self.component(&dir, path, name, print).await {
                self.problems.extend(problems);
            }
        }
        // What belongs to no component here can only be a definition file.
        listing.strays.iter().filter(|_| only.is_none()).for_each(|name| {
            self.definitions(&path.join(name));
        });
    }

    async fn component(
        &mut self,
        dir: &Dir,
        path: &Path,
        name: &str,
        print: &Fingerprint,
    ) -> Result<(), Vec<DocumentError>> {
        let file = path.join(name);
        let failed = |reason: String| vec![wrong(&file, reason)];
        if let Some(reason) = print.fault() {
            return Err(failed(reason));
        }
        let read = |name: &str, bytes_max| {
            drop_in::read(dir, name, bytes_max).map_err(|error| failed(error.to_string()))
        };
        let source = read(name, COMPONENT_BYTES_MAX)?;
        let binary = check::binary(&source).map_err(failed)?;
        let loaded = self.engine.load(binary.clone()).await;
        let loaded = loaded.map_err(|error| failed(error.to_string()))?;
        let signature =
            print.signature().map(|name| read(name, SIGNATURE_BYTES_MAX)).transpose()?;
        let signature = signature.map(|text| String::from_utf8_lossy(&text).into_owned());
        // A signature is of the file, which may be text.
        let bytes = if signature.is_some() { source } else { binary };
        let digest = digest::of_bytes(&bytes);
        let mut documents = BTreeMap::new();
        for name in print.sidecars() {
            let bytes = read(name, DOCUMENT_BYTES_MAX as u64)?;
            documents.extend([unbound(&path.join(name), &bytes)?]);
        }
        for definition in loaded.definitions_as(drop_in::stem(name).unwrap_or(name)) {
            let Offered { definition, ckp_name, .. } =
                Offered::new(&definition, self.engine.schemas()).map_err(failed)?;
            let code = ReleasedCode {
                component: digest.clone(),
                signature: signature.clone(),
                document: documents.remove(&ckp_name),
                definition,
            };
            let name = code.definition.name.clone();
            self.tools.push(Released { name, code: Some(code), said: Map::new() });
        }
        if let Some(stray) = documents.keys().next() {
            return Err(failed(format!(
                "a document binds a tool `{stray}`, which it does not offer"
            )));
        }
        self.components.insert(digest, bytes);
        if self.components.values().map(Vec::len).sum::<usize>() > REGISTRY_COMPONENTS_BYTES_MAX {
            return Err(failed(format!(
                "with it they are over {REGISTRY_COMPONENTS_BYTES_MAX} bytes"
            )));
        }
        Ok(())
    }

    fn definitions(&mut self, path: &Path) {
        let bytes = regular::read(path, DOCUMENT_BYTES_MAX as u64);
        let written = bytes.map_err(|error| vec![wrong(path, error)]);
        match written.and_then(|bytes| Governance::written(path, &bytes)) {
            Err(problems) => self.problems.extend(problems),
            Ok(all) => self.said.extend(all.into_iter().filter_map(|(name, value)| match value {
                Value::Object(said) => Some((path.to_owned(), name, said)),
                _ => None,
            })),
        }
    }

    fn finish(mut self, path: &Path) -> Result<Seed, Vec<DocumentError>> {
        let mut left_out = Vec::new();
        for (file, name, said) in std::mem::take(&mut self.said) {
            let ckp = ckp_name(&name);
            let tool = self.tools.iter_mut().find(|tool| ckp_name(&tool.name) == ckp);
            match tool {
                Some(tool) if tool.said.is_empty() => tool.said = said,
                Some(_) => {
                    self.problems.push(wrong(&file, format!("`{name}` is defined a second time")));
                }
                None if said.contains_key("composite") => {
                    self.tools.push(Released { name, code: None, said });
                }
                None if built_in_names().any(|own| own == ckp) => left_out.push(ckp),
                None => {
                    let reason = format!("no tool is called `{name}` here");
                    let help = "name the folder of its component as well";
                    self.problems.push(DocumentError::whole_file(&file, reason, Some(help)));
                }
            }
        }
        if !self.problems.is_empty() {
            return Err(self.problems);
        }
        let release = Release::new(self.tools);
        let checked = release.and_then(|release| release.definitions().map(|_| release));
        let release = checked.map_err(|reason| vec![wrong(path, reason)])?;
        Ok(Seed { release, components: self.components.into_values().collect(), left_out })
    }
}

fn wrong(file: &Path, reason: impl std::fmt::Display) -> DocumentError {
    DocumentError::whole_file(file, reason.to_string(), None)
}
