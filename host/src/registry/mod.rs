//! Where tools come from: the built-in components, the manifest that binds them, the registries
//! and MCP servers that it names, and the drop-in directory. Every change makes a new catalog, swapped in atomically; calls that
//! run keep the one they started with.

mod bind;
mod bridge;
mod builtin;
mod documents;
mod drop_in;
mod index;
mod locked;
mod needs;
mod offer;
mod own;
mod package;
mod preview;
mod releases;
mod remote;
mod services;
mod watch;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use clawhost_core::catalog::{Catalog, Tool};
use clawhost_core::composite::Composite;
use clawhost_core::descriptor::Granted;
use clawhost_core::egress::parse_url;
use clawhost_core::grants::{Grants, NATIVE, Shell};
use clawhost_core::imports;
use clawhost_core::manifest::Manifest;

pub(crate) use bridge::Bridged;
pub use bridge::{MIGRATIONS, Pin, PinState, Pins, misplaced, plan_alone};
pub use builtin::{BUILT_IN_COMPONENTS, built_in_names, built_in_tools, tool_names};
pub use documents::FileDocuments;
pub(crate) use index::{Index, Part, is_publishable};
pub(crate) use locked::{LOCK_FILE, read_lock};
pub(crate) use own::Own;
pub use own::OwnTool;
pub use preview::{Preview, preview};
pub use releases::{
    MIGRATIONS as RELEASE_MIGRATIONS, Pin as ReleasePin, ReleaseError, Releases, Seed, Version,
    gather,
};
pub use remote::{Published, Registries};
pub use services::contexts;

/// What is served without a manifest: the built-in tools under safe profiles.
pub const DEFAULT_MANIFEST: &str = include_str!("default.yaml");
pub use watch::{Patience, Watcher};

use crate::engine::{Engine, Loaded};
use crate::native::Native;
use crate::sandbox::fs::Places;
use crate::sandbox::{Backends, Sandbox};
use bind::{Binder, Claims};
use bridge::Bridges;

/// A catalog and the code behind each of its tools, by MCP name.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub(super) catalog: Arc<Catalog>,
    pub(super) runnables: BTreeMap<String, Runnable>,
    /// Which names the files have.
    claims: Arc<Claims>,
}

/// What runs a tool, and its sandbox, opened.
#[derive(Debug, Clone)]
pub(super) struct Runnable {
    pub(super) code: Code,
    pub(super) sandbox: Arc<Sandbox>,
}

/// What runs a tool.
#[derive(Debug, Clone)]
pub(crate) enum Code {
    /// A tool of an MCP server.
    Bridged(Arc<Bridged>),
    /// Other tools, called by steps.
    Composite(Arc<Composite>),
    /// A component, linked.
    Component(Arc<Loaded>),
    /// The embedding program's own code.
    Native(Arc<Native>),
    /// A tool of the host itself.
    Own(OwnTool),
    /// A request to a service.
    Service(Arc<Granted>),
}

impl Code {
    /// Says whether it is the very same.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bridged(own), Self::Bridged(other)) => Arc::ptr_eq(own, other),
            (Self::Composite(own), Self::Composite(other)) => Arc::ptr_eq(own, other),
            (Self::Component(own), Self::Component(other)) => Arc::ptr_eq(own, other),
            (Self::Native(own), Self::Native(other)) => Arc::ptr_eq(own, other),
            (Self::Own(own), Self::Own(other)) => own == other,
            (Self::Service(own), Self::Service(other)) => own == other,
            _ => false,
        }
    }

    fn digest(&self) -> Cow<'_, str> {
        match self {
            Self::Bridged(bridged) => Cow::Borrowed(&bridged.digest),
            Self::Composite(composite) => Cow::Borrowed(composite.digest()),
            Self::Component(loaded) => Cow::Borrowed(&loaded.digest),
            Self::Native(native) => Cow::Borrowed(&native.digest),
            Self::Own(own) => Cow::Borrowed(own.digest()),
            Self::Service(granted) => Cow::Owned(granted.tool.digest()),
        }
    }

    /// Returns it as a service's tool, where it is one.
    fn managed(&self) -> Option<&Arc<Granted>> {
        if let Self::Service(granted) = self { Some(granted) } else { None }
    }

    /// Returns it as an MCP server's tool, where it is one.
    fn bridged(&self) -> Option<&Arc<Bridged>> {
        if let Self::Bridged(bridged) = self { Some(bridged) } else { None }
    }

    /// Returns the policy that comes with it: that of an MCP server's entry.
    fn policy(&self) -> Option<&String> {
        self.bridged()?.policy.as_ref()
    }

    /// Returns the address of the MCP server that has it, where that is one of the web.
    fn server_url(&self) -> Option<&str> {
        self.bridged()?.url.as_deref()
    }

    /// Returns what it needs granted to be linked.
    fn imports(&self) -> impl Iterator<Item = &str> + Clone {
        let imports = match self {
            Self::Bridged(_)
            | Self::Composite(_)
            | Self::Native(_)
            | Self::Own(_)
            | Self::Service(_) => &[],
            Self::Component(loaded) => loaded.imports.as_slice(),
        };
        imports.iter().map(String::as_str)
    }
}

/// A tool a caller named, pinned to the component that was in service at that moment.
#[derive(Debug, Clone)]
pub struct Resolved {
    tool: Arc<Tool>,
    /// The version of the registry that was in service.
    release: Option<u64>,
    runnable: Runnable,
}

impl Resolved {
    /// Returns what the tool is.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// Returns the version of the registry that was in service.
    pub fn release(&self) -> Option<u64> {
        self.release
    }

    /// Returns what the call may touch.
    pub fn grants(&self) -> &Grants {
        self.runnable.sandbox.grants()
    }

    /// Returns the tool under what `other` grants as well, whose paths lead to `places`, and nothing
    /// more. A server runs already: only the time and the output of a call are its own.
    ///
    /// # Errors
    /// What is left cannot be opened, is less than the component needs to be linked at all, or less
    /// than an MCP server runs under; and whatever it is, for a tool that nothing contains.
    pub(crate) fn within(self, other: &Grants, places: &Places) -> Result<Self, String> {
        if self.grants().native {
            return Err(format!("it cannot hold the tool, which is {NATIVE}"));
        }
        let sandbox = self.runnable.sandbox.within(other, places);
        let sandbox = sandbox.map_err(|error| error.to_string())?;
        if self.is_shell() && is_shut(self.grants(), other, sandbox.grants()) {
            return Err("its shell is not one that both profiles grant".to_owned());
        }
        let code = &self.runnable.code;
        imports::check(code.imports(), sandbox.grants()).map_err(|reasons| reasons.join("; "))?;
        if let Code::Bridged(bridged) = code {
            self.check_server(bridged, sandbox.grants())?;
        }
        let runnable = Runnable { sandbox: Arc::new(sandbox), ..self.runnable };
        Ok(Self { runnable, ..self })
    }

    /// A server runs already: of one of the web its address has to be within what is `left`, of a program all
    /// that it runs under.
    fn check_server(&self, bridged: &Bridged, left: &Grants) -> Result<(), String> {
        let own = self.grants();
        let Some(url) = &bridged.url else {
            let refused = || {
                format!("its MCP server runs under `{}` already, which grants more", own.profile)
            };
            return is_same_place(own, left).then_some(()).ok_or_else(refused);
        };
        let url = parse_url(url).map_err(|error| error.internal())?;
        let is_open = left.network.as_ref().is_some_and(|rules| rules.check_url(&url).is_ok());
        is_open.then_some(()).ok_or_else(|| "it does not open its MCP server's address".to_owned())
    }

    /// Says whether it runs scripts, which the rules of a shell inside the sandbox are for.
    pub(crate) fn is_shell(&self) -> bool {
        builtin::is_shell(&self.tool.origin)
    }

    /// Says whether it is a tool of a server of the web, which no sandbox contains.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.runnable.code.server_url().is_some()
    }

    pub(crate) fn code(&self) -> &Code {
        &self.runnable.code
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        &self.runnable.sandbox
    }
}

/// Says whether what runs under `own` would run under `left` alike, but for the bounds of one call.
fn is_same_place(own: &Grants, left: &Grants) -> bool {
    let mut left = left.clone();
    left.profile.clone_from(&own.profile);
    left.limits.timeout = own.limits.timeout;
    left.limits.output_bytes = own.limits.output_bytes;
    left == *own
}

/// Says whether a shell that one of two profiles has rules for is not in what both grant.
fn is_shut(own: &Grants, other: &Grants, left: &Grants) -> bool {
    let is_granted = |grants: &Grants| *grants.any_shell() != Shell::Deny;
    (is_granted(own) || is_granted(other)) && !is_granted(left)
}

/// The snapshot in service. Swapping it disturbs no running call.
#[derive(Debug)]
pub struct Shelf {
    current: ArcSwap<Snapshot>,
    version: Arc<tokio::sync::watch::Sender<u64>>,
}

impl Default for Shelf {
    fn default() -> Self {
        let version = Arc::new(tokio::sync::watch::Sender::new(0));
        Self { current: ArcSwap::default(), version }
    }
}

impl Shelf {
    /// Returns an empty shelf that is to take the place of this one: whoever waits for a change of this
    /// one hears of its changes too.
    pub(crate) fn successor(&self) -> Self {
        let before = self.current.load();
        let catalog = Arc::new(Catalog::new(before.catalog.version));
        let claims = Arc::clone(&before.claims);
        let current = Snapshot { catalog, claims, ..Snapshot::default() };
        Self { current: ArcSwap::from_pointee(current), version: Arc::clone(&self.version) }
    }

    /// Wakes whoever waits for a change: not what is there changed, but who is offered it.
    pub(crate) fn touch(&self) {
        self.version.send_modify(|_| {});
    }

    /// Returns the tool a caller means, or none.
    pub fn resolve(&self, name: &str) -> Option<Resolved> {
        let snapshot = self.current.load();
        let tool = snapshot.catalog.find(name)?;
        let runnable = snapshot.runnables.get(&tool.definition.name)?;
        let release = snapshot.catalog.release;
        Some(Resolved { tool: Arc::clone(tool), release, runnable: runnable.clone() })
    }

    /// Returns the catalog in service.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.current.load().catalog)
    }

    /// Returns a receiver that changes with the catalog.
    pub fn versions(&self) -> tokio::sync::watch::Receiver<u64> {
        self.version.subscribe()
    }

    fn publish(&self, snapshot: Snapshot) {
        let version = snapshot.catalog.version;
        self.current.store(Arc::new(snapshot));
        // Whoever waits for a change is woken by one only.
        self.version.send_if_modified(|seen| std::mem::replace(seen, version) != version);
    }
}

/// Everything that is needed to make catalogs.
#[derive(Debug)]
pub struct Sources {
    /// Compiles and introspects.
    pub engine: Arc<Engine>,
    /// Binds tools to profiles and policies.
    pub manifest: Arc<Manifest>,
    /// What tools reach beyond this machine's files, as far as their profiles grant it.
    pub backends: Backends,
    /// Built-in tools that a dropped-in file, or a document's tool of an MCP server, may replace.
    pub replaceable: BTreeSet<String>,
    /// What was accepted of MCP servers.
    pub pins: Pins,
    /// The registry whose pinned version is served too.
    pub releases: Option<Releases>,
    /// Changes when somebody else has written to the store.
    pub touched: tokio::sync::watch::Receiver<i64>,
}

/// Loads the built-in components and everything in the drop-in directory, takes in what is the program's
/// `own`, starts the MCP servers,
/// fills the shelf, and keeps watching directory and servers where there are any.
///
/// The first catalog holds every tool, or, with `patience`, those that were ready by then.
///
/// # Errors
/// The directory cannot be read.
pub(crate) async fn open(
    sources: Sources,
    own: Vec<Own>,
    tools_dir: Option<PathBuf>,
    patience: Patience,
    shelf: Arc<Shelf>,
) -> std::io::Result<Option<Watcher>> {
    let built_in = builtin::load(&sources).await;
    let packaged = package::load(&sources).await;
    let mut binder = Binder::new(sources, built_in, packaged);
    binder.own = own;
    binder.follow(&shelf);
    binder.bridges = Bridges::start(&binder.sources).await;
    watch::start(binder, tools_dir, patience, shelf).await
}
