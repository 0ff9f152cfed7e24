//! Files for guests: `wasi:filesystem` over directory handles that were opened once, at load.
//!
//! Three layers. [`Roots`] turns mounts into handles and remembers, by (device, inode), what
//! stays closed or read-only inside them. [`Tree`] is one call's view: it walks guest paths one
//! component at a time and never lets the kernel follow a link. The host layer puts both behind
//! the WASI interfaces, with quotas and a record of every refusal.
//!
//! What holds on every route to an object:
//! - Paths stay beneath the handle they start from; absolute paths, absolute links and `..`
//!   above the start get one answer, whatever exists outside.
//! - The strictest of all grants met on the way and above the mount counts. A closed path is
//!   closed by the identity of its object, and by its name (compared without case) in the
//!   identity of its directory, so neither a hard link nor a replacement opens it.
//! - Regular files and directories only. A FIFO, a socket or a device is refused unopened.
//! - A file with more than one name is never written, as the other name may lie outside; what
//!   replaces it has one name. It is read: whoever made the link could have copied the file.
//! - What a call writes and creates is bounded, by `clawhost.yaml` where it says less for the
//!   profile. What earlier calls left is not counted: that is a quota of the disk.
//! - Guests make no hard links, and no symbolic links that are absolute or contain `..`.
//!
//! File I/O runs in pieces of at most [`CHUNK_BYTES_MAX`] with a yield between two pieces: a
//! page-cache copy of that size takes some ten microseconds, less than handing it to another
//! thread. But the system makes whoever writes much wait for the disk, for seconds where the disk
//! is slow, and a read of what is not cached waits too. So every piece passes one place,
//! [`Meter::io`]: once a call has moved a mebibyte, or one of its pieces was slow, the thread's
//! other tasks go on elsewhere while its I/O runs. `sync`, which always waits for the disk, goes
//! to a blocking thread.
//!
//! Deliberately absent: ambient paths after load (but for a mount made when first needed),
//! permissions (`chmod`), device access, file locks, and systems that are not Unix.

mod bindings;
mod bounds;
mod convert;
mod fault;
mod file;
mod folder;
mod foretell;
mod host;
mod listing;
mod meter;
mod mounted;
mod open;
#[cfg(feature = "wasi-p3")]
pub(super) mod p3;
mod path;
mod private;
mod roots;
mod rules;
mod stat;
mod stream;
mod tape;
mod tree;
mod walk;

#[cfg(test)]
mod tests;

pub use self::bounds::FolderBounds;
pub use self::fault::Fault;
pub use self::file::{CHUNK_BYTES_MAX, OpenFile, READ_BYTES_MAX};
pub use self::folder::Folder;
pub use self::foretell::Outlook;
pub use self::host::{FsCtx, FsView, HasFs, HostFault, add_to_linker};
pub use self::listing::{Entry, Listing};
pub use self::meter::{FsLimits, Limit, Meter};
pub(crate) use self::mounted::real;
pub use self::open::{Node, OpenHow};
pub use self::private::Private;
pub use self::roots::{RootError, Roots};
pub use self::stat::{FileFacts, Id, Kind};
pub use self::tree::{Follow, Tree};
