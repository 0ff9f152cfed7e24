//! Between the words of `wasi:filesystem` and ours.

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;

use super::bindings::wasi::filesystem::types;
use super::fault::Fault;
use super::open::{Node, OpenHow};
use super::stat::{FileFacts, Kind};
use super::tree::Follow;

/// Nanoseconds in a second: what a time's nanoseconds stay below.
const NANOSECONDS: u32 = 1_000_000_000;

/// Returns what a guest learns of a fault.
pub(super) const fn code_of(fault: Fault) -> types::ErrorCode {
    use types::ErrorCode as Code;
    match fault {
        Fault::Outside
        | Fault::Closed
        | Fault::HardLinked
        | Fault::LinkRefused
        | Fault::LinkTarget
        | Fault::Pinned => Code::NotPermitted,
        Fault::ReadOnly(_) => Code::ReadOnly,
        Fault::Special => Code::Unsupported,
        Fault::Limit(_) => Code::Quota,
        Fault::Os(errno) => code_of_errno(errno),
    }
}

const fn code_of_errno(errno: Errno) -> types::ErrorCode {
    use types::ErrorCode as Code;
    match errno {
        Errno::ACCESS => Code::Access,
        Errno::BADF => Code::BadDescriptor,
        Errno::BUSY => Code::Busy,
        Errno::DQUOT => Code::Quota,
        Errno::EXIST => Code::Exist,
        Errno::FBIG => Code::FileTooLarge,
        Errno::ILSEQ => Code::IllegalByteSequence,
        Errno::INTR => Code::Interrupted,
        Errno::INVAL => Code::Invalid,
        Errno::ISDIR => Code::IsDirectory,
        Errno::LOOP => Code::Loop,
        Errno::MLINK => Code::TooManyLinks,
        Errno::NAMETOOLONG => Code::NameTooLong,
        Errno::NOENT => Code::NoEntry,
        Errno::NOMEM => Code::InsufficientMemory,
        Errno::NOSPC => Code::InsufficientSpace,
        Errno::NOTDIR => Code::NotDirectory,
        Errno::NOTEMPTY => Code::NotEmpty,
        Errno::OPNOTSUPP => Code::Unsupported,
        Errno::OVERFLOW => Code::Overflow,
        Errno::PERM => Code::NotPermitted,
        Errno::ROFS => Code::ReadOnly,
        Errno::SPIPE => Code::InvalidSeek,
        Errno::TXTBSY => Code::TextFileBusy,
        Errno::XDEV => Code::CrossDevice,
        _ => Code::Io,
    }
}

pub(super) fn follow_of(flags: types::PathFlags) -> Follow {
    if flags.contains(types::PathFlags::SYMLINK_FOLLOW) { Follow::Yes } else { Follow::No }
}

/// Returns how to open. Synchronous writes are refused, since they cannot be promised.
pub(super) fn how_of(
    open: types::OpenFlags,
    flags: types::DescriptorFlags,
) -> Result<OpenHow, Fault> {
    use types::{DescriptorFlags as Flags, OpenFlags as Open};
    let sync =
        Flags::FILE_INTEGRITY_SYNC | Flags::DATA_INTEGRITY_SYNC | Flags::REQUESTED_WRITE_SYNC;
    if flags.intersects(sync) {
        return Err(Errno::OPNOTSUPP.into());
    }
    Ok(OpenHow {
        create: open.contains(Open::CREATE),
        directory: open.contains(Open::DIRECTORY),
        exclusive: open.contains(Open::EXCLUSIVE),
        read: flags.contains(Flags::READ),
        truncate: open.contains(Open::TRUNCATE),
        write: flags.contains(Flags::WRITE),
    })
}

/// Says whether something open is read, is written, and is a directory that changes.
pub(super) fn uses_of(node: &Node) -> [bool; 3] {
    match node {
        Node::File(file) => [file.reads(), file.writes(), false],
        Node::Folder(folder) => [true, false, folder.may_change()],
    }
}

pub(super) fn flags_of(uses: [bool; 3]) -> types::DescriptorFlags {
    use types::DescriptorFlags as Flags;
    let flags = [Flags::READ, Flags::WRITE, Flags::MUTATE_DIRECTORY];
    let set = flags.into_iter().zip(uses).filter(|(_, is_set)| *is_set);
    set.fold(Flags::empty(), |all, (flag, _)| all | flag)
}

pub(super) const fn type_of(kind: Kind) -> types::DescriptorType {
    match kind {
        Kind::Directory => types::DescriptorType::Directory,
        Kind::File => types::DescriptorType::RegularFile,
        Kind::Link => types::DescriptorType::SymbolicLink,
        Kind::Special => types::DescriptorType::Unknown,
    }
}

/// What a guest learns of an object: its kind, names and size, and when it was read, written and changed.
pub(super) type Told = (Kind, u64, u64, [Option<(u64, u32)>; 3]);

pub(super) fn told_of(facts: &FileFacts) -> Told {
    let times = [facts.accessed, facts.modified, facts.changed].map(since_1970);
    (facts.kind, facts.links, facts.size, times)
}

pub(super) fn stat_of((kind, link_count, size, times): Told) -> types::DescriptorStat {
    let time = |(seconds, nanoseconds)| Datetime { seconds, nanoseconds };
    let [read, written, changed] = times.map(|at| at.map(time));
    types::DescriptorStat {
        type_: type_of(kind),
        link_count,
        size,
        data_access_timestamp: read,
        data_modification_timestamp: written,
        status_change_timestamp: changed,
    }
}

pub(super) const fn hash_of((lower, upper): (u64, u64)) -> types::MetadataHashValue {
    types::MetadataHashValue { lower, upper }
}

/// Returns when something was last read and written, as the system is to set it.
pub(super) fn times_of(
    accessed: types::NewTimestamp,
    modified: types::NewTimestamp,
) -> Result<Timestamps, Fault> {
    Ok(Timestamps { last_access: set_time(accessed)?, last_modification: set_time(modified)? })
}

fn set_time(time: types::NewTimestamp) -> Result<Timespec, Fault> {
    match time {
        types::NewTimestamp::NoChange => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }),
        types::NewTimestamp::Now => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }),
        types::NewTimestamp::Timestamp(time) => timespec_of(time),
    }
}

fn timespec_of(time: Datetime) -> Result<Timespec, Fault> {
    let carry = u64::from(time.nanoseconds / NANOSECONDS);
    let seconds = time.seconds.checked_add(carry).and_then(|seconds| i64::try_from(seconds).ok());
    let tv_sec = seconds.ok_or(Fault::Os(Errno::OVERFLOW))?;
    Ok(Timespec { tv_sec, tv_nsec: (time.nanoseconds % NANOSECONDS).into() })
}

/// Returns a time as WASI knows it: none before 1970.
fn since_1970(time: Timespec) -> Option<(u64, u32)> {
    Some((u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}
