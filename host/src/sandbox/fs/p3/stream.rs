//! What a guest of WASI 0.3 reads and writes piece by piece: 0.2's streams over the same files, moved by the engine.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rustix::io::Errno;
use tokio::sync::oneshot;
use tokio::task::coop;
use wasmtime::StoreContextMut;
use wasmtime::component::{
    Access, Destination, FutureReader, Lift, Lower, Resource, Source, StreamConsumer,
    StreamProducer, StreamReader, StreamResult, VecBuffer,
};
use wasmtime_wasi::p3::bindings::filesystem::types;
use wasmtime_wasi_io::streams::{DynInputStream, DynOutputStream, StreamError};

use super::super::convert;
use super::super::fault::Fault;
use super::super::file::CHUNK_BYTES_MAX;
use super::super::host::{FsView, HasFs, HostFault};
use super::super::listing::{Entry, Listing};
use super::super::tape::Answer;
use super::words::{told, type_of};

/// Tells a guest how a stream ended; that all went well where nothing is said.
struct End(Option<oneshot::Sender<Fault>>);

/// How a stream ended.
pub(super) type Told = Result<(), types::ErrorCode>;

impl End {
    fn new<U>(store: &mut Access<'_, U, HasFs>) -> wasmtime::Result<(Self, FutureReader<Told>)> {
        let (sender, receiver) = oneshot::channel();
        let ended = async move {
            let fault = receiver.await.map_or(Ok(()), |fault| Err(told(fault)));
            wasmtime::error::Ok(fault)
        };
        Ok((Self(Some(sender)), FutureReader::new(store, ended)?))
    }

    /// Ends the stream for `fault`, or the guest where that is none.
    fn with(&mut self, fault: HostFault) -> wasmtime::Result<StreamResult> {
        match (fault, self.0.take()) {
            (HostFault::Trap(error), _) => return Err(error),
            // Nobody may listen.
            (HostFault::Fault(fault), Some(sender)) => drop(sender.send(fault)),
            (HostFault::Fault(_), None) => {}
        }
        Ok(StreamResult::Dropped)
    }
}

fn ended(error: StreamError) -> HostFault {
    match error {
        StreamError::LastOperationFailed(error) => match error.downcast_ref::<Fault>() {
            Some(fault) => HostFault::Fault(*fault),
            None => HostFault::Trap(error),
        },
        StreamError::Trap(error) => HostFault::Trap(error),
        StreamError::Closed => HostFault::Fault(Fault::Os(Errno::IO)),
    }
}

/// What is read piece by piece.
pub(super) trait Pieces: Send + Unpin + 'static {
    type Item: Send + Sync + 'static;

    /// Returns the next ones, at most `max`, or as many as it likes; none at the end.
    fn next(&mut self, max: Option<usize>) -> Answer<Vec<Self::Item>>;
}

impl Pieces for DynInputStream {
    type Item = u8;

    fn next(&mut self, max: Option<usize>) -> Answer<Vec<u8>> {
        let max = max.unwrap_or(CHUNK_BYTES_MAX).min(CHUNK_BYTES_MAX);
        match self.read(max) {
            Ok(bytes) => Ok(bytes.into()),
            Err(StreamError::Closed) => Ok(Vec::new()),
            Err(error) => Err(ended(error)),
        }
    }
}

impl Pieces for Listing {
    type Item = types::DirectoryEntry;

    /// One at a time: what comes before a name that cannot be told is not lost.
    fn next(&mut self, _max: Option<usize>) -> Answer<Vec<types::DirectoryEntry>> {
        let entry = |Entry { name, kind }| {
            let type_ = type_of(convert::type_of(kind));
            types::DirectoryEntry { type_, name }
        };
        Ok(self.next_entry()?.map(entry).into_iter().collect())
    }
}

/// Gives a guest what it reads; nothing where it could not be opened.
struct Supply<P> {
    pieces: Option<P>,
    end: End,
}

impl<D, P: Pieces> StreamProducer<D> for Supply<P> {
    type Item = P::Item;
    type Buffer = VecBuffer<P::Item>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut store: StoreContextMut<'a, D>,
        mut to: Destination<'a, Self::Item, Self::Buffer>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let room = to.remaining(&mut store);
        if room == Some(0) {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        // From one stream into another no guest runs, whose fuel would let others have a turn.
        if !finish {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        let this = &mut *self;
        let Some(pieces) = &mut this.pieces else {
            return Poll::Ready(Ok(StreamResult::Dropped));
        };
        Poll::Ready(match pieces.next(room) {
            Ok(items) if items.is_empty() => Ok(StreamResult::Dropped),
            Ok(items) => {
                to.set_buffer(items.into());
                Ok(StreamResult::Completed)
            }
            Err(fault) => this.end.with(fault),
        })
    }
}

/// Takes what a guest writes.
struct Drain {
    to: DynOutputStream,
    end: End,
}

impl<D> StreamConsumer<D> for Drain {
    type Item = u8;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        store: StoreContextMut<'_, D>,
        from: Source<'_, u8>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let mut from = from.as_direct(store);
        let there = from.remaining();
        let piece = Bytes::copy_from_slice(there.get(..CHUNK_BYTES_MAX).unwrap_or(there));
        if !piece.is_empty() && !finish {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        let bytes = piece.len();
        if let Err(error) = if bytes > 0 { self.to.write(piece) } else { Ok(()) } {
            return Poll::Ready(self.end.with(ended(error)));
        }
        from.mark_read(bytes);
        Poll::Ready(Ok(StreamResult::Completed))
    }
}

/// Returns what a guest reads `pieces` from, and what tells it how that ended.
pub(super) fn reading<U, P: Pieces>(
    mut store: Access<'_, U, HasFs>,
    open: impl FnOnce(&mut FsView<'_>) -> Answer<P>,
) -> wasmtime::Result<(StreamReader<P::Item>, FutureReader<Told>)>
where
    P::Item: Lower + Lift,
{
    let opened = open(&mut store.get());
    let (mut end, ended) = End::new(&mut store)?;
    let pieces = match opened {
        Ok(pieces) => Some(pieces),
        Err(fault) => end.with(fault).map(|_| None)?,
    };
    Ok((StreamReader::new(&mut store, Supply { pieces, end })?, ended))
}

/// Has what `open` opens take `data`, and returns what tells the guest how that ended.
pub(super) fn writing<U>(
    mut store: Access<'_, U, HasFs>,
    mut data: StreamReader<u8>,
    open: impl FnOnce(&mut FsView<'_>) -> Answer<Resource<DynOutputStream>>,
) -> wasmtime::Result<FutureReader<Told>> {
    let view = &mut store.get();
    let opened = open(view).and_then(|stream| Ok(view.table.delete(stream)?));
    let (mut end, ended) = End::new(&mut store)?;
    match opened {
        Ok(to) => data.pipe(&mut store, Drain { to, end })?,
        Err(fault) => {
            end.with(fault)?;
            data.close(&mut store)?;
        }
    }
    Ok(ended)
}
