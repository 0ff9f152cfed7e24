//! Asking registries: documents and components, by address, over HTTPS.
//!
//! Each registry can be reached at exactly the host and port that the operator wrote, and what it
//! sends is bounded in bytes and time and compared with its digest. The first registry that has
//! an address answers for it; one that fails ends the search, as whoever can silence a registry
//! must not choose which one answers in its place. Deliberately absent: redirects, credentials,
//! a cache (what is fetched is fetched anew at each start), and trust in what a document says,
//! which [`clawhost_core::manifest`] decides.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clawhost_core::egress::{self, EgressRules};
use clawhost_core::limits::{
    COMPONENT_BYTES_MAX, DOCUMENT_BYTES_MAX, REGISTRY_COMPONENTS_BYTES_MAX,
    REGISTRY_INDEX_BYTES_MAX, REGISTRY_LOAD_MS, REGISTRY_READ_MS, REGISTRY_REASON_BYTES_MAX,
};
use clawhost_core::manifest::{
    Component, DirEntry, Documents, Package, RegistryError, RegistrySettings,
};
use clawhost_core::package::Lock;
use clawhost_core::uri::RegistryUri;
use clawhost_core::{digest, truncate, visible};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};

use super::index::{Index, Part, is_publishable};
use crate::upstream::http::{CheckedRequest, HttpClient, RequestLimits};

/// The registries of a host, in the order in which they are asked.
#[derive(Debug, Clone)]
pub struct Registries {
    servers: Vec<Server>,
    client: HttpClient,
    times: Times,
    pinned: Lock,
}

#[derive(Debug, Clone)]
struct Server {
    name: String,
    url: String,
    rules: Arc<EgressRules>,
}

/// How long registries may take.
#[derive(Debug, Clone, Copy)]
struct Times {
    read: Duration,
    load: Duration,
}

impl Registries {
    /// Returns the registries that the runtime file names, asked through `client`.
    ///
    /// # Errors
    /// The name of one whose address cannot be used; those of checked settings can.
    pub fn new(settings: &[RegistrySettings], client: HttpClient) -> Result<Self, String> {
        let server = |one: &RegistrySettings| {
            let rules = egress::endpoint(&one.url)
                .map_err(|denied| format!("the registry `{}`: {denied}", one.name))?;
            let url = one.url.trim_end_matches('/').to_owned();
            Ok(Server { name: one.name.clone(), url, rules: Arc::new(rules) })
        };
        let servers = settings.iter().map(server).collect::<Result<_, String>>()?;
        let read = Duration::from_millis(REGISTRY_READ_MS);
        let load = Duration::from_millis(REGISTRY_LOAD_MS);
        Ok(Self { servers, client, times: Times { read, load }, pinned: Lock::default() })
    }

    /// Lets no address be anything else than what is locked.
    #[must_use]
    pub fn pinned(self, pinned: Lock) -> Self {
        Self { pinned, ..self }
    }

    /// Compares what came with what is locked, where the address is.
    fn check(&self, uri: &RegistryUri, package: &Package) -> Result<(), RegistryError> {
        let Some(locked) = self.pinned.get(&uri.to_string()) else { return Ok(()) };
        let component = package.component.as_ref().map(|component| &component.digest);
        if component == Some(&locked.digest) && locked.document.as_ref() == Some(&package.digest) {
            return Ok(());
        }
        let Package { registry, digest, .. } = package;
        let component = component.map_or("no component", String::as_str);
        let reason = format!(
            "has something else than clawhost.lock says, which `clawhost pull {uri} --update` accepts: {component}, with the document {digest}"
        );
        Err(RegistryError::Failed { registry: registry.clone(), reason })
    }

    /// Returns `files` with these registries beside them, for one load: its time begins now.
    pub fn beside<'a>(&'a self, files: &'a dyn Documents) -> Published<'a> {
        let until = Instant::now() + self.times.load;
        Published { files, registries: self, until, left: Cell::new(REGISTRY_COMPONENTS_BYTES_MAX) }
    }
}

/// Documents of which those that are missing are asked of registries.
///
/// Asking blocks the thread until the answer is there or the time is over: on a thread that
/// serves, load through `spawn_blocking`.
pub struct Published<'a> {
    files: &'a dyn Documents,
    registries: &'a Registries,
    until: Instant,
    /// Bytes of components that may still be fetched.
    left: Cell<usize>,
}

clawhost_core::shows!(Published<'_> { registries });

impl Documents for Published<'_> {
    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        self.files.read(file)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirEntry>> {
        self.files.list(directory)
    }

    fn is_directory(&self, path: &Path) -> bool {
        self.files.is_directory(path)
    }

    fn leaves(&self, directory: &Path, file: &Path) -> bool {
        self.files.leaves(directory, file)
    }

    fn registry(&self, uri: &RegistryUri) -> Result<Package, RegistryError> {
        if self.registries.servers.is_empty() {
            return Err(RegistryError::NotConfigured);
        }
        if !is_publishable(uri) {
            let why = "none, as a namespace and a name begin with a letter or digit";
            return Err(RegistryError::NotFound(why.to_owned()));
        }
        let ask = Ask {
            client: &self.registries.client,
            times: self.registries.times,
            until: self.until,
            components_left: self.left.get(),
        };
        let package = on_a_thread(ask.all(&self.registries.servers, uri))?;
        self.registries.check(uri, &package)?;
        let bytes = package.component.as_ref().map_or(0, |component| component.bytes.len());
        self.left.set(self.left.get().saturating_sub(bytes));
        Ok(package)
    }
}

/// Runs `work` on a thread and a runtime of its own: whoever loads documents may or may not be
/// in a runtime, and of either kind.
fn on_a_thread(
    work: impl Future<Output = Result<Package, RegistryError>> + Send,
) -> Result<Package, RegistryError> {
    let failed = |reason: String| RegistryError::Failed { registry: "(any)".to_owned(), reason };
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed(format!("cannot be asked: {error}")))?;
        let answer = runtime.block_on(work);
        // A name look-up that hangs must not keep this thread.
        runtime.shutdown_background();
        answer
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("registry".to_owned());
        let spawned = thread.spawn_scoped(scope, run);
        let thread = spawned.map_err(|error| failed(format!("cannot be asked: {error}")))?;
        thread.join().unwrap_or_else(|_| Err(failed("cannot be asked".to_owned())))
    })
}

/// What one question may cost.
struct Ask<'a> {
    client: &'a HttpClient,
    times: Times,
    until: Instant,
    components_left: usize,
}

impl Ask<'_> {
    async fn all(&self, servers: &[Server], uri: &RegistryUri) -> Result<Package, RegistryError> {
        for server in servers {
            match self.one(server, uri).await {
                Ok(Some(package)) => return Ok(package),
                Ok(None) => {}
                Err(reason) => {
                    return Err(RegistryError::Failed { registry: server.name.clone(), reason });
                }
            }
        }
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        Err(RegistryError::NotFound(names.join(", ")))
    }

    /// Returns what one registry has; nothing where it says that it has nothing.
    async fn one(&self, server: &Server, uri: &RegistryUri) -> Result<Option<Package>, String> {
        let RegistryUri { namespace, name, version } = uri;
        let base = format!("{}/{namespace}/{name}/{version}", server.url);
        let Some(index) = self.get(server, &base, REGISTRY_INDEX_BYTES_MAX as u64).await? else {
            return Ok(None);
        };
        let index = Index::read(&index, uri)?;
        let document = self
            .part(server, &format!("{base}/document"), &index.document, DOCUMENT_BYTES_MAX as u64)
            .await?;
        let component = match &index.component {
            None => None,
            Some(part) => {
                let component = self.component(server, &format!("{base}/component"), part).await?;
                Some(Component { signature: index.signature, ..component })
            }
        };
        Ok(Some(Package {
            registry: server.name.clone(),
            document: document.to_vec(),
            digest: index.document.digest,
            component,
        }))
    }

    async fn component(
        &self,
        server: &Server,
        url: &str,
        part: &Part,
    ) -> Result<Component, String> {
        if part.bytes > self.components_left as u64 {
            return Err(format!(
                "has a component of {} bytes, which is more than is left of the {REGISTRY_COMPONENTS_BYTES_MAX} that one load may fetch",
                part.bytes
            ));
        }
        let bytes = self.part(server, url, part, COMPONENT_BYTES_MAX).await?;
        Ok(Component { bytes: Arc::from(&*bytes), digest: part.digest.clone(), signature: None })
    }

    /// Fetches what the index promised, of that length and with that digest.
    async fn part(
        &self,
        server: &Server,
        url: &str,
        part: &Part,
        bytes_max: u64,
    ) -> Result<Bytes, String> {
        if part.bytes > bytes_max {
            return Err(format!("has {} bytes at {url}; at most {bytes_max} are read", part.bytes));
        }
        let bytes = self.get(server, url, part.bytes).await?;
        let bytes = bytes.ok_or_else(|| format!("lists {url} and does not have it"))?;
        if bytes.len() as u64 != part.bytes || digest::of_bytes(&bytes) != part.digest {
            return Err(format!("sent something else than the index says at {url}"));
        }
        Ok(bytes)
    }

    /// Fetches `url`; nothing where the answer is 404.
    async fn get(
        &self,
        server: &Server,
        url: &str,
        bytes_max: u64,
    ) -> Result<Option<Bytes>, String> {
        let request = Request::get(url).header(http::header::ACCEPT, "*/*");
        let request = request.body(Empty::new()).map_err(|error| error.to_string())?;
        let request = CheckedRequest::new(Arc::clone(&server.rules), request)
            .map_err(|denied| format!("cannot be asked for {url}: {denied}"))?;
        let limits = RequestLimits {
            connect: self.times.read,
            first_byte: self.times.read,
            between_bytes: self.times.read,
            body_bytes_max: bytes_max,
            ..RequestLimits::until(self.until)
        };
        let unanswered = |error| format!("cannot be asked for {url}: {error}");
        let answer = self.client.send(request, &limits).await.map_err(unanswered)?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            status if status.is_redirection() => {
                return Err(format!("sends elsewhere for {url}: redirects are not followed"));
            }
            status => {
                let why = answer.into_body().collect().await.ok();
                let why = why.and_then(|body| said(&body.to_bytes())).unwrap_or_default();
                return Err(format!("answers {} for {url}{why}", status.as_u16()));
            }
        }
        let body = answer.into_body().collect().await.map_err(unanswered)?;
        Ok(Some(body.to_bytes()))
    }
}

/// Returns what a refusal says, to be appended to a sentence: short, and safe to show.
fn said(body: &[u8]) -> Option<String> {
    let body = clawhost_core::json::parse(body).ok()?;
    let line = visible::line(body.get("error")?.get("message")?.as_str()?);
    Some(format!(": {}", truncate::text(&line, REGISTRY_REASON_BYTES_MAX)))
}

#[cfg(test)]
mod tests;
