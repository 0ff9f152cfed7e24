//! Streams over open files: always ready, a chunk at a time, on the guest's own thread.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wasmtime_wasi_io::async_trait;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{
    DynInputStream, DynOutputStream, InputStream, OutputStream, StreamError, StreamResult,
};

use super::fault::Fault;
use super::file::{CHUNK_BYTES_MAX, OpenFile};
use super::tape;
use crate::recording::{Blob, Tape};

/// Reads a file from an offset to its end.
#[derive(Debug)]
pub(super) struct FileInput {
    file: Arc<OpenFile>,
    offset: u64,
    ended: bool,
}

impl FileInput {
    pub(super) const fn new(file: Arc<OpenFile>, offset: u64) -> Self {
        Self { file, offset, ended: false }
    }
}

#[async_trait]
impl Pollable for FileInput {
    async fn ready(&mut self) {}
}

#[async_trait]
impl InputStream for FileInput {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if self.ended {
            return Err(StreamError::Closed);
        }
        if size == 0 {
            return Ok(Bytes::new());
        }
        let (bytes, ended) = self.file.piece(size, self.offset).map_err(failed)?;
        self.ended = ended;
        if bytes.is_empty() {
            return Err(StreamError::Closed);
        }
        self.offset = advance(self.offset, bytes.len())?;
        Ok(bytes.into())
    }
}

/// Where the next byte of a [`FileOutput`] goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteTo {
    /// To this offset.
    At(u64),
    /// To the end of the file.
    End,
}

/// Writes a file.
#[derive(Debug)]
pub(super) struct FileOutput {
    file: Arc<OpenFile>,
    to: WriteTo,
    failed: bool,
}

impl FileOutput {
    pub(super) const fn new(file: Arc<OpenFile>, to: WriteTo) -> Self {
        Self { file, to, failed: false }
    }

    fn check(&self) -> StreamResult<()> {
        if self.failed { Err(StreamError::Closed) } else { Ok(()) }
    }

    fn write_some(&mut self, bytes: &[u8]) -> StreamResult<usize> {
        let WriteTo::At(offset) = self.to else {
            return self.file.append(bytes).map_err(failed);
        };
        let count = self.file.write_at(bytes, offset).map_err(failed)?;
        self.to = WriteTo::At(advance(offset, count)?);
        Ok(count)
    }
}

#[async_trait]
impl Pollable for FileOutput {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for FileOutput {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.check()?;
        if bytes.len() > CHUNK_BYTES_MAX {
            return Err(StreamError::trap("write of more than check-write allowed"));
        }
        let mut rest = &*bytes;
        while !rest.is_empty() {
            let count = self.write_some(rest).inspect_err(|_| self.failed = true)?;
            if count == 0 {
                self.failed = true;
                return Err(failed(Fault::Os(rustix::io::Errno::IO)));
            }
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.check()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.check().map(|()| CHUNK_BYTES_MAX)
    }
}

/// A stream of which a tape has the answers; nothing is behind it while they are played.
struct Taped<S> {
    tape: Tape,
    live: Option<S>,
}

/// Returns what a guest reads from.
pub(super) fn input(live: Option<FileInput>, tape: &Tape) -> DynInputStream {
    match live {
        Some(live) if !tape.is_on() => Box::new(live),
        live => Box::new(Taped { tape: tape.clone(), live }),
    }
}

/// Returns what a guest writes to.
pub(super) fn output(live: Option<FileOutput>, tape: &Tape) -> DynOutputStream {
    match live {
        Some(live) if !tape.is_on() => Box::new(live),
        live => Box::new(Taped { tape: tape.clone(), live }),
    }
}

impl<S> Taped<S> {
    fn answer<T: Serialize + DeserializeOwned>(
        &mut self,
        of: fmt::Arguments<'_>,
        live: impl FnOnce(&mut S) -> StreamResult<T>,
    ) -> StreamResult<T> {
        let Some(stream) = &mut self.live else {
            return tape::play(&self.tape, of).unwrap_or(Err(StreamError::Closed));
        };
        let answer = live(stream);
        tape::keep(&self.tape, of, answer)
    }
}

#[async_trait]
impl<S: Send + 'static> Pollable for Taped<S> {
    async fn ready(&mut self) {}
}

#[async_trait]
impl InputStream for Taped<FileInput> {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        let read = |file: &mut FileInput| Ok(Blob(file.read(size)?.into()));
        self.answer(format_args!("stream read {size}"), read).map(|Blob(bytes)| bytes.into())
    }
}

#[async_trait]
impl OutputStream for Taped<FileOutput> {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let of = format_args!("stream write {}", bytes.len());
        self.answer(of, |file| file.write(bytes.clone()))
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.answer(format_args!("stream flush"), FileOutput::flush)
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.answer(format_args!("stream check-write"), FileOutput::check_write)
    }
}

/// Wraps a fault so that `filesystem-error-code` finds it again.
fn failed(fault: Fault) -> StreamError {
    StreamError::LastOperationFailed(fault.into())
}

fn advance(offset: u64, count: usize) -> StreamResult<u64> {
    let next = u64::try_from(count).ok().and_then(|count| offset.checked_add(count));
    next.ok_or_else(|| failed(Fault::Os(rustix::io::Errno::OVERFLOW)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::fs::tests::place::Place;

    #[tokio::test]
    async fn a_stream_reads_to_the_end_and_then_closes() {
        let place = Place::new();
        let file = place.file("in", &vec![7; CHUNK_BYTES_MAX + 1]);
        let mut input = FileInput::new(file, 0);
        assert_eq!(input.blocking_read(usize::MAX).await.unwrap().len(), CHUNK_BYTES_MAX);
        assert_eq!(input.blocking_read(usize::MAX).await.unwrap().len(), 1);
        assert!(matches!(input.blocking_read(1).await, Err(StreamError::Closed)));
    }

    #[tokio::test]
    async fn two_appending_streams_both_keep_their_bytes() {
        let place = Place::new();
        let (first, second) = (place.file("out", b""), place.file("out", b""));
        let mut first = FileOutput::new(first, WriteTo::End);
        let mut second = FileOutput::new(second, WriteTo::End);
        first.blocking_write_and_flush("one ".into()).await.unwrap();
        second.blocking_write_and_flush("two ".into()).await.unwrap();
        first.blocking_write_and_flush("three".into()).await.unwrap();
        assert_eq!(place.bytes("out"), b"one two three");
    }

    #[tokio::test]
    async fn a_stream_over_quota_fails_with_a_fault_and_stays_closed() {
        let place = Place::with_write_quota(3);
        let mut output = FileOutput::new(place.file("out", b""), WriteTo::At(0));
        let error = output.blocking_write_and_flush("1234".into()).await.unwrap_err();
        let StreamError::LastOperationFailed(error) = error else { panic!("{error:?}") };
        assert!(matches!(error.downcast_ref(), Some(Fault::Limit(_))));
        assert!(matches!(output.check_write(), Err(StreamError::Closed)));
        assert_eq!(place.bytes("out"), b"");
    }
}
