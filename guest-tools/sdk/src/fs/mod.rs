//! Files and directories the profile grants, by relative path.
//!
//! The first granted folder is where relative paths start; a folder granted under a name is
//! reached by that name. There is deliberately no way to name anything else: the host holds
//! the directory handles and checks every path against them.

mod path;

use crate::bindings::wasi::filesystem::preopens::get_directories;
use crate::bindings::wasi::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, OpenFlags, PathFlags,
};
use crate::error::ToolError;
use path::{Below, Plain};

/// The largest file that is read or written: what the host keeps of one result.
pub const FILE_BYTES_MAX: usize = 10_485_760;

/// The most entries one listing returns, so that it fits a result.
pub const ENTRIES_MAX: usize = 10_000;

/// Bytes moved by one host call.
const CHUNK_BYTES: usize = 65_536;

/// Temporary names tried beside a file, where writers that died left some behind.
const PART_NAMES_MAX: u32 = 64;

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, without the directory.
    pub name: String,
    /// Whether it is a directory, or a link to one inside the grant.
    pub is_dir: bool,
    /// Bytes of a file; 0 for a directory.
    pub size: u64,
}

/// What a directory holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Sorted by name.
    pub entries: Vec<Entry>,
    /// Whether there are more than [`ENTRIES_MAX`].
    pub truncated: bool,
}

/// Reads a whole file of at most [`FILE_BYTES_MAX`] bytes.
///
/// # Errors
/// `invalid-path`, `file-not-found`, `permission-denied`, or `execution-failed` where it is a
/// directory, too large, or cannot be read.
pub fn read(path: &str) -> Result<Vec<u8>, ToolError> {
    let place = Place::find(path)?;
    let file = place.open(OpenFlags::empty(), DescriptorFlags::READ)?;
    let stat = place.tell(file.stat())?;
    if stat.type_ == DescriptorType::Directory {
        return Err(place.error(ErrorCode::IsDirectory));
    }
    if stat.size > FILE_BYTES_MAX as u64 {
        return Err(too_large(path, stat.size));
    }
    place.read_all(&file)
}

/// Reads a whole UTF-8 text file.
///
/// # Errors
/// Those of [`read`], and `execution-failed` where the file is not UTF-8.
pub fn read_to_string(path: &str) -> Result<String, ToolError> {
    String::from_utf8(read(path)?).map_err(|error| {
        ToolError::failed(format!(
            "{path:?} is not UTF-8 text (the first wrong byte is at offset {})",
            error.utf8_error().valid_up_to()
        ))
    })
}

/// Writes a whole file, making missing parent directories.
///
/// A reader sees the old content or the new one, never half of either: it is written beside
/// the file and renamed over it. Only what a symbolic link leads to is written in place, so
/// that the link stays one.
///
/// # Errors
/// `invalid-path`, `permission-denied`, or `execution-failed`.
pub fn write(path: &str, content: &[u8]) -> Result<(), ToolError> {
    if content.len() > FILE_BYTES_MAX {
        return Err(too_large(path, content.len() as u64));
    }
    let place = Place::find(path)?;
    match place.root.stat_at(PathFlags::empty(), &place.below.text()) {
        Ok(stat) if stat.type_ == DescriptorType::Directory => {
            Err(place.error(ErrorCode::IsDirectory))
        }
        Ok(stat) if stat.type_ == DescriptorType::RegularFile => place.replace(content),
        Ok(_) => place.write_in_place(content),
        Err(ErrorCode::NoEntry) => {
            place.make_parents()?;
            place.replace(content)
        }
        Err(code) => Err(place.error(code)),
    }
}

/// Lists a directory's immediate children.
///
/// # Errors
/// `invalid-path`, `file-not-found`, `permission-denied`, or `execution-failed` where it is
/// not a directory.
pub fn list(path: &str) -> Result<Listing, ToolError> {
    let place = Place::find(path)?;
    let directory = place.open(OpenFlags::DIRECTORY, DescriptorFlags::READ)?;
    let stream = place.tell(directory.read_directory())?;
    let mounts = mounts_inside(path)?;
    let mut entries = mounts.clone();
    let mut truncated = false;
    while let Some(found) = place.tell(stream.read_directory_entry())? {
        let is_mount = mounts.iter().any(|mount| mount.name == found.name);
        if is_mount || found.name == "." || found.name == ".." {
            continue;
        }
        if entries.len() == ENTRIES_MAX {
            truncated = true;
            break;
        }
        entries.push(entry(&directory, found.name, found.type_));
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Listing { entries, truncated })
}

/// A path, and the granted folder it is in.
struct Place<'a> {
    path: &'a str,
    root: Descriptor,
    below: Below,
}

impl<'a> Place<'a> {
    fn find(path: &'a str) -> Result<Self, ToolError> {
        let plain = Plain::parse(path)?;
        let mut best: Option<Self> = None;
        for (root, mount) in get_directories() {
            if let Some(below) = plain.below(&mount)
                && best.as_ref().is_none_or(|best| below.depth > best.below.depth)
            {
                best = Some(Self { path, root, below });
            }
        }
        best.ok_or_else(|| ToolError::denied("no folder is granted to this tool"))
    }

    fn open(&self, how: OpenFlags, access: DescriptorFlags) -> Result<Descriptor, ToolError> {
        let path = self.below.text();
        self.tell(self.root.open_at(PathFlags::SYMLINK_FOLLOW, &path, how, access))
    }

    fn read_all(&self, file: &Descriptor) -> Result<Vec<u8>, ToolError> {
        let mut content = Vec::new();
        loop {
            let read = file.read(CHUNK_BYTES as u64, content.len() as u64);
            let (chunk, end) = self.tell(read)?;
            let empty = chunk.is_empty();
            content.extend(chunk);
            if content.len() > FILE_BYTES_MAX {
                return Err(too_large(self.path, content.len() as u64));
            }
            if end || empty {
                return Ok(content);
            }
        }
    }

    fn make_parents(&self) -> Result<(), ToolError> {
        for parent in self.below.parents() {
            match self.root.create_directory_at(&parent) {
                Ok(()) | Err(ErrorCode::Exist) => {}
                // Where nothing may be made, a parent that is there is enough.
                Err(code) => {
                    self.root
                        .stat_at(PathFlags::SYMLINK_FOLLOW, &parent)
                        .map_err(|_| self.error(code))?;
                }
            }
        }
        Ok(())
    }

    fn write_in_place(&self, content: &[u8]) -> Result<(), ToolError> {
        let how = OpenFlags::CREATE | OpenFlags::TRUNCATE;
        let file = self.open(how, DescriptorFlags::WRITE)?;
        self.tell(write_all(&file, content))
    }

    fn replace(&self, content: &[u8]) -> Result<(), ToolError> {
        let (part, file) = self.open_part()?;
        let renamed = write_all(&file, content)
            .and_then(|()| self.root.rename_at(&part, &self.root, &self.below.text()));
        if renamed.is_err() {
            // The first error is the one worth telling; the leftover is at most one small file.
            let _ = self.root.unlink_file_at(&part);
        }
        self.tell(renamed)
    }

    /// A new file beside the place, under a name nobody has.
    fn open_part(&self) -> Result<(String, Descriptor), ToolError> {
        for number in 0..PART_NAMES_MAX {
            let Some(part) = self.below.beside(number) else {
                return Err(self.error(ErrorCode::IsDirectory));
            };
            let how = OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
            match self.root.open_at(PathFlags::empty(), &part, how, DescriptorFlags::WRITE) {
                Ok(file) => return Ok((part, file)),
                Err(ErrorCode::Exist) => {}
                Err(code) => return Err(self.error(code)),
            }
        }
        Err(ToolError::failed(format!("{:?}: too many unfinished writes lie beside it", self.path)))
    }

    fn tell<T>(&self, result: Result<T, ErrorCode>) -> Result<T, ToolError> {
        result.map_err(|code| self.error(code))
    }

    /// The error in words that name the caller's path and nothing of the host's.
    fn error(&self, code: ErrorCode) -> ToolError {
        let path = self.path;
        match code {
            ErrorCode::NoEntry => ToolError::FileNotFound(format!("{path:?} does not exist")),
            ErrorCode::NotPermitted => {
                ToolError::InvalidPath(format!("{path:?} is not inside the granted folder"))
            }
            ErrorCode::Loop | ErrorCode::NameTooLong | ErrorCode::IllegalByteSequence => {
                ToolError::InvalidPath(format!("{path:?} is not a usable path: {}", code.message()))
            }
            ErrorCode::Access => ToolError::denied(format!("{path:?} may not be used")),
            ErrorCode::ReadOnly => ToolError::denied(format!("{path:?} is granted read-only")),
            ErrorCode::Unsupported => {
                ToolError::failed(format!("{path:?} is neither a regular file nor a folder"))
            }
            ErrorCode::IsDirectory => ToolError::failed(format!("{path:?} is a directory")),
            ErrorCode::NotDirectory => ToolError::failed(format!("{path:?} is not a directory")),
            other => ToolError::failed(format!("{path:?}: {}", other.message())),
        }
    }
}

fn write_all(file: &Descriptor, content: &[u8]) -> Result<(), ErrorCode> {
    let mut offset = 0;
    for chunk in content.chunks(CHUNK_BYTES) {
        let mut rest = chunk;
        while !rest.is_empty() {
            let written = file.write(rest, offset)?;
            offset += written;
            let step = usize::try_from(written).map_err(|_| ErrorCode::Io)?;
            // A host that writes nothing would keep us here for ever.
            rest = rest.get(step..).filter(|_| step > 0).ok_or(ErrorCode::Io)?;
        }
    }
    Ok(())
}

fn too_large(path: &str, bytes: u64) -> ToolError {
    ToolError::failed(format!("{path:?} has {bytes} bytes; the limit is {FILE_BYTES_MAX}"))
}

/// Granted folders whose name lies directly in `path`.
fn mounts_inside(path: &str) -> Result<Vec<Entry>, ToolError> {
    let plain = Plain::parse(path)?;
    let names = get_directories().into_iter().filter_map(|(_, mount)| plain.child_mount(&mount));
    Ok(names.map(|name| Entry { name, is_dir: true, size: 0 }).collect())
}

fn entry(directory: &Descriptor, name: String, type_: DescriptorType) -> Entry {
    let follow = PathFlags::SYMLINK_FOLLOW;
    // An entry that cannot be looked at (it is gone, or leads outside) is still a name.
    let stat: Option<DescriptorStat> = directory.stat_at(follow, &name).ok();
    let is_dir = stat.as_ref().map_or(type_, |stat| stat.type_) == DescriptorType::Directory;
    let size = stat.filter(|_| !is_dir).map_or(0, |stat| stat.size);
    Entry { name, is_dir, size }
}
