//! Watching the drop-in directory and the MCP servers: one task owns both and publishes catalogs.
//!
//! A file is read once it has been the same in two looks, so that one that is being copied causes no
//! error; until then the old one stays in service. A copy that pauses for longer is taken as it is, and
//! again when it goes on: nothing tells it from a damaged file. Each file loads on its own: a slow
//! compile delays no other, and neither does a slow server.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cap_std::fs::{Dir, Metadata, MetadataExt as _};
use clawhost_core::limits::{DROP_IN_DEBOUNCE_MS, DROP_IN_RESCAN_MS};
use notify::Watcher as _;
use notify::event::{AccessKind, AccessMode, EventKind};
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use super::bind::Binder;
use super::drop_in::{self, DropIn, FileState, Fingerprint, Listing, Load, Status};
use super::job::{Job, Place};
use super::locked::LOCK_FILE;
use super::releases::{Follower, Served};
use super::{Shelf, Sources};

const DEBOUNCE: Duration = Duration::from_millis(DROP_IN_DEBOUNCE_MS);
const RESCAN: Duration = Duration::from_millis(DROP_IN_RESCAN_MS);

/// Keeps the catalog in step with the directory and the servers until it is dropped.
#[derive(Debug)]
pub struct Watcher {
    _task: AbortOnDropHandle<()>,
}

type Loaded = (String, Fingerprint, Status);

/// Owns all sources of tools that change, and publishes catalogs.
struct Keeper {
    binder: Binder,
    shelf: Arc<Shelf>,
    folder: Option<Folder>,
    /// Changes when somebody else has written to the store.
    touched: watch::Receiver<i64>,
    loaded: mpsc::UnboundedReceiver<Loaded>,
    follower: Option<Follower>,
}

struct Folder {
    place: Place,
    files: BTreeMap<String, DropIn>,
    last_look: Listing,
    /// Which lock file the files were held against.
    lock: Option<FileState>,
    /// Documents without a component, the same in two looks.
    strays: BTreeSet<String>,
    trouble: String,
    loads: mpsc::UnboundedSender<Loaded>,
    notes: mpsc::Sender<()>,
    watcher: Option<notify::RecommendedWatcher>,
}

/// What a look at the directory showed.
struct Look {
    /// All of it was the same as in the look before.
    stable: bool,
    /// There is another catalog to publish.
    changed: bool,
}

/// How long the first catalog waits for what takes long; for nothing without a bound.
#[derive(Debug, Clone, Copy, Default)]
pub struct Patience {
    /// For all of it.
    pub all: Option<Duration>,
    /// For MCP servers.
    pub servers: Option<Duration>,
}

/// Publishes the first catalog, then keeps watching where there is a directory or a server. What
/// takes longer than `patience` to compile or to connect is in the first catalog as loading.
pub(super) async fn start(
    binder: Binder,
    path: Option<PathBuf>,
    patience: Patience,
    shelf: Arc<Shelf>,
) -> std::io::Result<Option<Watcher>> {
    let (loads, loaded) = mpsc::unbounded_channel();
    // One pending note is enough: it means "look again".
    let (notes, noted) = mpsc::channel(1);
    let folder = path.map(|path| Folder::open(path, &binder.sources, loads, notes)).transpose()?;
    let touched = binder.sources.touched.clone();
    let releases = binder.sources.releases.clone();
    let follower = releases.map(|releases| Follower::start(releases, &binder.sources));
    let mut keeper = Keeper { binder, shelf, folder, touched, loaded, follower };
    let first = keeper.settle(patience.servers.map(|patience| Instant::now() + patience));
    match patience.all {
        None => first.await,
        // Out of patience is no error: what is still loading is listed as that.
        Some(patience) => drop(tokio::time::timeout(patience, first).await),
    }
    keeper.publish();
    let is_fixed = keeper.folder.is_none() && keeper.follower.is_none();
    if is_fixed && keeper.binder.bridges.is_empty() {
        return Ok(None);
    }
    if let Some(folder) = &mut keeper.folder {
        folder.watcher = notifications(&folder.place.path, folder.notes.clone());
    }
    let task = tokio::spawn(keeper.run(noted));
    Ok(Some(Watcher { _task: AbortOnDropHandle::new(task) }))
}

impl Keeper {
    async fn run(mut self, mut noted: mpsc::Receiver<()>) {
        let mut wait = RESCAN;
        // Of its own, so that nothing else that happens puts it off.
        let next_look = tokio::time::sleep(wait);
        tokio::pin!(next_look);
        loop {
            tokio::select! {
                Some(result) = self.loaded.recv() => {
                    self.arrived(result);
                    self.publish();
                }
                released = released(&mut self.follower) => {
                    self.binder.take_released(released);
                    self.publish();
                }
                Some(()) = noted.recv(), if wait > DEBOUNCE => {
                    wait = DEBOUNCE;
                    next_look.as_mut().reset(tokio::time::Instant::now() + wait);
                }
                () = self.binder.bridges.changed() => {
                    self.binder.bridges.refresh(&self.binder.sources).await;
                    self.publish();
                }
                Ok(()) = self.touched.changed() => {
                    let of_servers = self.binder.bridges.recheck(&self.binder.sources).await;
                    if self.recheck().await || of_servers {
                        self.publish();
                    }
                }
                () = &mut next_look => {
                    wait = self.look();
                    next_look.as_mut().reset(tokio::time::Instant::now() + wait);
                }
            }
        }
    }

    /// Takes in what arrives until nothing is under way, `until` then also from servers.
    async fn settle(&mut self, until: Option<Instant>) {
        loop {
            let files = self.folder.as_ref().is_some_and(Folder::is_loading);
            let bridges = &mut self.binder.bridges;
            let is_time = until.is_none_or(|until| Instant::now() < until);
            let servers = is_time && bridges.is_connecting();
            let registry = self.follower.as_ref().is_some_and(Follower::is_looking);
            if !files && !servers && !registry {
                return;
            }
            tokio::select! {
                released = released(&mut self.follower), if registry => {
                    self.binder.take_released(released);
                }
                Some(result) = self.loaded.recv(), if files => self.arrived(result),
                () = passed(until), if servers => {}
                () = bridges.changed(), if servers => bridges.refresh(&self.binder.sources).await,
            }
        }
    }

    /// Looks at the directory. Returns the time to the next look.
    fn look(&mut self) -> Duration {
        let look = self.folder.as_mut().map(Folder::look);
        if look.as_ref().is_some_and(|look| look.changed) {
            self.publish();
        }
        if look.is_none_or(|look| look.stable) { RESCAN } else { DEBOUNCE }
    }

    /// Asks again whether what files need is accepted. Says whether any is another way now.
    async fn recheck(&mut self) -> bool {
        let mut changed = false;
        if let Some(Folder { place: Place { pins: Some(pins), .. }, files, .. }) = &mut self.folder
        {
            for file in files.values_mut() {
                changed |= file.recheck(pins).await;
            }
        }
        changed
    }

    fn arrived(&mut self, loaded: Loaded) {
        if matches!(loaded.2, Status::Waiting { .. }) {
            // It may have been accepted since the load asked.
            self.touched.mark_changed();
        }
        if let Some(folder) = &mut self.folder {
            folder.arrived(loaded);
        }
    }

    fn publish(&mut self) {
        let none = BTreeSet::new();
        let folder = self.folder.as_ref();
        let files: Vec<&DropIn> = folder.iter().flat_map(|folder| folder.files.values()).collect();
        let strays = folder.map_or(&none, |folder| &folder.strays);
        self.shelf.publish(self.binder.snapshot(&files, strays));
    }
}

/// Waits for something new of the registry; for ever where there is none.
async fn released(follower: &mut Option<Follower>) -> Option<Arc<Served>> {
    match follower {
        Some(follower) => follower.changed().await,
        None => std::future::pending().await,
    }
}

/// Waits until then; for ever where there is no bound.
async fn passed(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until.into()).await,
        None => std::future::pending().await,
    }
}

/// Returns the system's notifications, where they can be had; the rescan works without them.
fn notifications(path: &Path, notes: mpsc::Sender<()>) -> Option<notify::RecommendedWatcher> {
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // What cannot be told may be a change.
        if event.map_or(true, |event| is_change(event.kind)) {
            let _ = notes.try_send(());
        }
    });
    let watcher = watcher.and_then(|mut watcher| {
        watcher.watch(path, notify::RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    watcher
        .inspect_err(|error| tracing::warn!("no notifications for the tools directory: {error}"))
        .ok()
}

/// Returns which lock file there is in `folder`.
fn which(folder: &Path) -> Option<FileState> {
    let facts = std::fs::symlink_metadata(folder.join(LOCK_FILE)).ok()?;
    Some(FileState::of(LOCK_FILE, &Metadata::from_just_metadata(facts)))
}

/// Tells a change from a look: the host's own looks must not make it look again.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

impl Folder {
    /// Opens the directory and starts to load what is there.
    fn open(
        path: PathBuf,
        sources: &Sources,
        loads: mpsc::UnboundedSender<Loaded>,
        notes: mpsc::Sender<()>,
    ) -> std::io::Result<Self> {
        let (dir, last_look) = drop_in::open(&path)?;
        let place = Place {
            dir: Arc::new(dir),
            path,
            engine: Arc::clone(&sources.engine),
            manifest: Arc::clone(&sources.manifest),
            pins: Some(sources.pins.clone()),
        };
        let mut folder = Self {
            place,
            files: BTreeMap::new(),
            last_look,
            lock: None,
            strays: BTreeSet::new(),
            trouble: String::new(),
            loads,
            notes,
            watcher: None,
        };
        folder.look();
        Ok(folder)
    }

    fn is_loading(&self) -> bool {
        self.files.values().any(DropIn::is_loading)
    }

    /// Looks at the directory; takes in what has not changed since the last look.
    fn look(&mut self) -> Look {
        let now = match self.reopened().and_then(|()| drop_in::list(&self.place.dir)) {
            Ok(now) => now,
            Err(error) => return self.trouble(&error.to_string()),
        };
        self.trouble.clear();
        let stable = now == self.last_look;
        let mut changed = self.forget_deleted(&now);
        let lock = self.place.manifest.locked.as_deref().and_then(which);
        if self.lock != lock {
            self.lock = lock;
            self.files.values_mut().for_each(|file| file.print = Fingerprint::default());
        }
        for (name, print) in &now.components {
            let due = |file: &DropIn| file.print != *print || file.is_due_again();
            let is_due = self.files.get(name).is_none_or(due);
            if is_due && self.last_look.components.get(name) == Some(print) {
                self.take_in(name, print);
                changed = true;
            }
        }
        let strays = now.strays.intersection(&self.last_look.strays).cloned().collect();
        changed |= std::mem::replace(&mut self.strays, strays) != self.strays;
        self.last_look = now;
        Look { stable, changed }
    }

    /// Follows the path where another directory has taken its place.
    fn reopened(&mut self) -> std::io::Result<()> {
        let Place { dir, path, .. } = &mut self.place;
        let now = std::fs::metadata(&*path)?;
        let open = dir.dir_metadata()?;
        if (now.dev(), now.ino()) != (open.dev(), open.ino()) {
            tracing::warn!("the tools directory was replaced; serving the new one");
            *dir = Arc::new(Dir::open_ambient_dir(&*path, cap_std::ambient_authority())?);
            self.watcher = notifications(path, self.notes.clone());
        }
        Ok(())
    }

    /// Says once what keeps the directory from being read; the tools it held stay in service.
    fn trouble(&mut self, reason: &str) -> Look {
        if self.trouble != reason {
            tracing::warn!("the tools directory cannot be read: {reason}");
            reason.clone_into(&mut self.trouble);
        }
        Look { stable: true, changed: false }
    }

    fn forget_deleted(&mut self, now: &Listing) -> bool {
        let before = self.files.len();
        self.files.retain(|name, _| now.components.contains_key(name));
        self.files.len() != before
    }

    /// Starts to load a new or changed file; a changed one serves on until the new is ready.
    /// A load of what it was before is given up.
    fn take_in(&mut self, name: &str, print: &Fingerprint) {
        let known = self.files.get(name);
        let is_retry = known.is_some_and(|file| file.print == *print);
        let load = Some(Load { _task: self.start_load(name, print), is_retry });
        if let Some(file) = self.files.get_mut(name) {
            file.print = print.clone();
            file.load = load;
            return;
        }
        let (print, status) = (print.clone(), Status::Loading);
        let file = DropIn { name: name.to_owned(), print, status, load };
        self.files.insert(name.to_owned(), file);
    }

    fn start_load(&self, name: &str, print: &Fingerprint) -> AbortOnDropHandle<()> {
        let (place, name) = (self.place.clone(), name.to_owned());
        let job = Arc::new(Job { place, name, print: print.clone() });
        let loads = self.loads.clone();
        let load = async move {
            let status = job.load().await.unwrap_or_else(Status::Failed);
            // The receiver is gone where the host is stopping.
            drop(loads.send((job.name.clone(), job.print.clone(), status)));
        };
        AbortOnDropHandle::new(tokio::spawn(load))
    }

    /// Takes a finished load, unless the file has changed or gone since.
    fn arrived(&mut self, (name, print, status): Loaded) {
        let Some(file) = self.files.get_mut(&name).filter(|file| file.print == print) else {
            return;
        };
        file.status = status;
        file.load = None;
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, MetadataKind, ModifyKind};

    use super::*;

    #[test]
    fn a_look_is_no_change() {
        for kind in [
            AccessKind::Open(AccessMode::Any),
            AccessKind::Read,
            AccessKind::Close(AccessMode::Read),
        ] {
            assert!(!is_change(EventKind::Access(kind)), "{kind:?}");
        }
        for kind in [
            EventKind::Access(AccessKind::Close(AccessMode::Write)),
            EventKind::Create(CreateKind::File),
            EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)),
            EventKind::Other,
        ] {
            assert!(is_change(kind), "{kind:?}");
        }
    }
}
