//! Streams between commands: all in memory, all bounded, or files of the grant.

use std::cell::RefCell;
use std::mem;
use std::rc::Rc;

use crate::limits::{CHUNK_BYTES, PIPE_BYTES_MAX, WHOLE_BYTES_MAX};
use crate::stop::{Run, Stop};
use crate::world::{FileError, Filed, Files, Kind};

/// What a descriptor stands for.
#[derive(Clone)]
pub(crate) enum Fd {
    Input(Input),
    Output(Sink),
}

/// Something to read from. Copies share one position, as descriptors do.
#[derive(Clone)]
pub(crate) struct Input(Rc<RefCell<Source>>);

struct Source {
    buffer: Vec<u8>,
    at: usize,
    more: More,
}

/// What comes after the buffer.
enum More {
    End,
    /// The writer was stopped at [`PIPE_BYTES_MAX`]: there would be more.
    Cut,
    File {
        files: Rc<dyn Files>,
        path: String,
        offset: u64,
    },
}

impl Input {
    pub(crate) fn bytes(bytes: Vec<u8>) -> Self {
        Self::new(bytes, More::End)
    }

    /// The other end of a pipe.
    pub(crate) fn pipe(buffer: &RefCell<Buffer>) -> Self {
        let mut buffer = buffer.borrow_mut();
        let more = if buffer.refused { More::Cut } else { More::End };
        Self::new(mem::take(&mut buffer.bytes), more)
    }

    /// A file, whose first part is read at once: a small one may be replaced while it is read.
    pub(crate) fn file(files: &Rc<dyn Files>, path: String) -> Filed<Self> {
        let stat = files.stat(&path, true)?;
        if stat.kind == Kind::Folder {
            return Err(FileError::is_folder());
        }
        let buffer = files.read(&path, 0, CHUNK_BYTES)?;
        let offset = buffer.len() as u64;
        let more = if buffer.len() < CHUNK_BYTES {
            More::End
        } else {
            More::File { files: Rc::clone(files), path, offset }
        };
        Ok(Self::new(buffer, more))
    }

    fn new(buffer: Vec<u8>, more: More) -> Self {
        Self(Rc::new(RefCell::new(Source { buffer, at: 0, more })))
    }

    /// The next bytes, as many as are at hand; none at the end.
    pub(crate) fn chunk(&self) -> Run<Vec<u8>> {
        let mut source = self.0.borrow_mut();
        if source.at == source.buffer.len() && !source.fill()? {
            return Ok(Vec::new());
        }
        let at = source.at;
        let chunk = source.buffer.split_off(at);
        source.buffer.clear();
        source.at = 0;
        Ok(chunk)
    }

    /// The next line with its end, which the last one may lack.
    pub(crate) fn line(&self) -> Run<Option<Vec<u8>>> {
        self.until(b'\n')
    }

    /// The bytes up to and with the next `end`.
    pub(crate) fn until(&self, end: u8) -> Run<Option<Vec<u8>>> {
        let mut source = self.0.borrow_mut();
        let mut line = Vec::new();
        loop {
            let rest = source.buffer.get(source.at..).unwrap_or_default();
            if let Some(length) = rest.iter().position(|byte| *byte == end) {
                line.extend_from_slice(rest.get(..=length).unwrap_or_default());
                source.at += length + 1;
                return Ok(Some(line));
            }
            line.extend_from_slice(rest);
            source.at = source.buffer.len();
            if line.len() > WHOLE_BYTES_MAX {
                return Err(too_long());
            }
            if !source.fill()? {
                return Ok((!line.is_empty()).then_some(line));
            }
        }
    }

    /// Everything that is left, for commands that need it at once.
    pub(crate) fn all(&self) -> Run<Vec<u8>> {
        let mut all = self.chunk()?;
        loop {
            let chunk = self.chunk()?;
            if chunk.is_empty() {
                return Ok(all);
            }
            all.extend_from_slice(&chunk);
            if all.len() > WHOLE_BYTES_MAX {
                return Err(too_long());
            }
        }
    }
}

fn too_long() -> Stop {
    Stop::Fatal(format!("a command needs more than {WHOLE_BYTES_MAX} bytes at once"))
}

impl Source {
    /// Reads on; `false` at the end.
    fn fill(&mut self) -> Run<bool> {
        match &mut self.more {
            More::End => Ok(false),
            More::Cut => Err(Stop::Fatal(format!(
                "more than {PIPE_BYTES_MAX} bytes went through a pipe; filter earlier or use a file"
            ))),
            More::File { files, path, offset } => {
                let read = files.read(path, *offset, CHUNK_BYTES);
                let chunk = read.map_err(|FileError(why)| Stop::Fatal(format!("{path}: {why}")))?;
                *offset += chunk.len() as u64;
                self.at = 0;
                self.buffer = chunk;
                Ok(!self.buffer.is_empty())
            }
        }
    }
}

/// What happens to bytes that no longer fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// They are counted and dropped: the script's own output.
    Count,
    /// The writer is stopped, as a broken pipe would: its reader may want no more.
    Stop,
    /// The script ends: a value that is cut would be a wrong one.
    End,
}

/// Bytes kept in memory.
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
    /// Bytes written, kept or not.
    pub(crate) total: u64,
    pub(crate) refused: bool,
    bytes_max: usize,
    overflow: Overflow,
}

impl Buffer {
    pub(crate) fn new(bytes_max: usize, overflow: Overflow) -> Rc<RefCell<Self>> {
        let bytes = Vec::new();
        Rc::new(RefCell::new(Self { bytes, total: 0, refused: false, bytes_max, overflow }))
    }

    fn write(&mut self, bytes: &[u8]) -> Run<()> {
        self.total += bytes.len() as u64;
        let kept = bytes.len().min(self.bytes_max - self.bytes.len());
        self.bytes.extend_from_slice(bytes.get(..kept).unwrap_or_default());
        if kept == bytes.len() {
            return Ok(());
        }
        self.refused = true;
        match self.overflow {
            Overflow::Count => Ok(()),
            Overflow::Stop => Err(Stop::PipeFull),
            Overflow::End => {
                Err(Stop::Fatal(format!("a value has more than {} bytes", self.bytes_max)))
            }
        }
    }
}

/// Something to write to.
#[derive(Clone)]
pub(crate) enum Sink {
    Null,
    Memory(Rc<RefCell<Buffer>>),
    File { files: Rc<dyn Files>, path: String },
}

impl Sink {
    pub(crate) fn write(&self, bytes: &[u8]) -> Run<()> {
        match self {
            _ if bytes.is_empty() => Ok(()),
            Self::Null => Ok(()),
            Self::Memory(buffer) => buffer.borrow_mut().write(bytes),
            Self::File { files, path } => files
                .append(path, bytes)
                .map_err(|FileError(why)| Stop::Fatal(format!("{path}: {why}"))),
        }
    }
}
