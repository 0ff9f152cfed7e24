//! What guests are told of files, kept or played. Of a failure its fault is kept, and of what ended the
//! guest nothing.

use std::fmt::{Arguments, Display};

use serde::Serialize;
use serde::de::DeserializeOwned;
use wasmtime::component::Resource;
use wasmtime_wasi_io::streams::StreamError;

use super::fault::Fault;
use super::folder::Folder;
use super::host::{FsView, HostFault};
use super::open::Node;
use super::tree::Tree;
use crate::recording::{LOST, Tape};

/// How an answer fails.
pub(super) trait Failure {
    /// Returns what is kept of it.
    fn fault(&self) -> Option<Fault>;

    /// Returns the failure of which that was kept.
    fn of(fault: Option<Fault>) -> Self;
}

impl Failure for HostFault {
    fn fault(&self) -> Option<Fault> {
        if let Self::Fault(fault) = self { Some(*fault) } else { None }
    }

    fn of(fault: Option<Fault>) -> Self {
        fault.map_or_else(|| Self::Trap(wasmtime::format_err!("{LOST}")), Self::Fault)
    }
}

impl Failure for StreamError {
    fn fault(&self) -> Option<Fault> {
        match self {
            Self::LastOperationFailed(error) => error.downcast_ref().copied(),
            Self::Closed | Self::Trap(_) => None,
        }
    }

    fn of(fault: Option<Fault>) -> Self {
        fault.map_or(Self::Closed, |fault| Self::LastOperationFailed(fault.into()))
    }
}

/// Returns the answer that was kept, where answers are played.
pub(super) fn play<T: DeserializeOwned, E: Failure>(
    tape: &Tape,
    of: impl Display,
) -> Option<Result<T, E>> {
    tape.played(of, || Err(None)).map(|kept| kept.map_err(E::of))
}

/// Keeps an answer, where answers are kept.
pub(super) fn keep<T: Serialize, E: Failure>(
    tape: &Tape,
    of: impl Display,
    answer: Result<T, E>,
) -> Result<T, E> {
    tape.keep(of, &answer.as_ref().map_err(E::fault));
    answer
}

/// Answers and keeps the answer, which takes its time; or plays what was kept.
pub(super) async fn soon<T: Serialize + DeserializeOwned>(
    tape: Tape,
    of: impl Display,
    live: impl Future<Output = Answer<T>>,
) -> Answer<T> {
    match play(&tape, &of) {
        Some(kept) => kept,
        None => keep(&tape, of, live.await),
    }
}

pub(super) type Answer<T> = Result<T, HostFault>;

/// What stands for a handle while answers are played.
struct Played;

impl FsView<'_> {
    /// Answers and keeps the answer; or plays what was kept, and touches nothing.
    pub(super) fn taped<T: Serialize + DeserializeOwned>(
        &mut self,
        of: Arguments<'_>,
        live: impl FnOnce(&mut Self) -> Answer<T>,
    ) -> Answer<T> {
        play(&self.ctx.tape, of).unwrap_or_else(|| {
            let answer = live(self);
            keep(&self.ctx.tape, of, answer)
        })
    }

    /// As [`FsView::taped`], of an operation on a path, which is recorded where it is refused.
    pub(super) fn taped_at<T: Serialize + DeserializeOwned>(
        &mut self,
        action: &str,
        node: &Resource<Node>,
        path: &str,
        run: impl FnOnce(&Tree, &Folder) -> Result<T, Fault>,
    ) -> Answer<T> {
        self.taped(format_args!("{action} {path}"), |view| view.at(action, node, path, run))
    }

    /// As [`FsView::taped`], of what `live` makes: nothing where the answer is played.
    pub(super) fn made<T>(
        &mut self,
        of: Arguments<'_>,
        live: impl FnOnce(&mut Self) -> Answer<T>,
    ) -> Answer<Option<T>> {
        let mut made = None;
        self.taped(of, |view| live(view).map(|it| made = Some(it)))?;
        Ok(made)
    }

    /// Returns a handle for what was made.
    pub(super) fn handle<T: Send + 'static>(
        &mut self,
        made: Option<T>,
    ) -> wasmtime::Result<Resource<T>> {
        Ok(match made {
            Some(made) => self.table.push(made)?,
            None => Resource::new_own(self.table.push(Played)?.rep()),
        })
    }

    pub(super) fn close<T: 'static>(&mut self, handle: Resource<T>) -> wasmtime::Result<()> {
        if self.ctx.tape.plays() {
            self.table.delete(Resource::<Played>::new_own(handle.rep()))?;
        } else {
            self.table.delete(handle)?;
        }
        Ok(())
    }
}
