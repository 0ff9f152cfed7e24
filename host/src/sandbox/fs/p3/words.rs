//! Between the words of the two versions of `wasi:filesystem`.

use rustix::io::Errno;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p3::bindings::clocks::system_clock::Instant;
use wasmtime_wasi::p3::bindings::filesystem::types;

use super::super::bindings::wasi::filesystem::types as old;
use super::super::convert::code_of;
use super::super::fault::Fault;

/// Turns a value into the one that has the same name there.
macro_rules! same {
    ($value:expr, $from:ident => $to:ident: $($name:ident)*) => {
        match $value { $($from::$name => $to::$name,)* _ => $to::Other(None) }
    };
}

/// As `same`, of flags.
macro_rules! same_flags {
    ($value:expr, $from:ty => $to:ty: $($name:ident)*) => {{
        let (value, mut all) = ($value, <$to>::empty());
        $(if value.contains(<$from>::$name) { all |= <$to>::$name; })*
        all
    }};
}

pub(super) fn told(fault: Fault) -> types::ErrorCode {
    use old::ErrorCode as Old;
    use types::ErrorCode as New;
    same!(code_of(fault), Old => New: Access BadDescriptor Busy CrossDevice Exist FileTooLarge
        IllegalByteSequence InsufficientMemory InsufficientSpace Interrupted Invalid InvalidSeek Io
        IsDirectory Loop NameTooLong NoEntry NotDirectory NotEmpty NotPermitted Overflow Quota ReadOnly
        TextFileBusy TooManyLinks Unsupported)
}

pub(super) fn type_of(kind: old::DescriptorType) -> types::DescriptorType {
    use old::DescriptorType as Old;
    use types::DescriptorType as New;
    same!(kind, Old => New: Directory RegularFile SymbolicLink)
}

pub(super) fn follow_of(flags: types::PathFlags) -> old::PathFlags {
    same_flags!(flags, types::PathFlags => old::PathFlags: SYMLINK_FOLLOW)
}

pub(super) fn open_of(flags: types::OpenFlags) -> old::OpenFlags {
    same_flags!(flags, types::OpenFlags => old::OpenFlags: CREATE DIRECTORY EXCLUSIVE TRUNCATE)
}

pub(super) fn uses_of(flags: types::DescriptorFlags) -> old::DescriptorFlags {
    same_flags!(flags, types::DescriptorFlags => old::DescriptorFlags: READ WRITE FILE_INTEGRITY_SYNC
        DATA_INTEGRITY_SYNC REQUESTED_WRITE_SYNC MUTATE_DIRECTORY)
}

pub(super) fn flags_of(flags: old::DescriptorFlags) -> types::DescriptorFlags {
    same_flags!(flags, old::DescriptorFlags => types::DescriptorFlags: READ WRITE MUTATE_DIRECTORY)
}

pub(super) fn stat_of(stat: old::DescriptorStat) -> types::DescriptorStat {
    let time = |at: Datetime| Instant {
        seconds: i64::try_from(at.seconds).unwrap_or(i64::MAX),
        nanoseconds: at.nanoseconds,
    };
    types::DescriptorStat {
        type_: type_of(stat.type_),
        link_count: stat.link_count,
        size: stat.size,
        data_access_timestamp: stat.data_access_timestamp.map(time),
        data_modification_timestamp: stat.data_modification_timestamp.map(time),
        status_change_timestamp: stat.status_change_timestamp.map(time),
    }
}

/// Returns the time to set; one before 1970 is none that the host sets.
pub(super) fn time_of(time: types::NewTimestamp) -> Result<old::NewTimestamp, Fault> {
    Ok(match time {
        types::NewTimestamp::NoChange => old::NewTimestamp::NoChange,
        types::NewTimestamp::Now => old::NewTimestamp::Now,
        types::NewTimestamp::Timestamp(Instant { seconds, nanoseconds }) => {
            let seconds = u64::try_from(seconds).map_err(|_| Fault::Os(Errno::OVERFLOW))?;
            old::NewTimestamp::Timestamp(Datetime { seconds, nanoseconds })
        }
    })
}

pub(super) const fn hash_of(hash: old::MetadataHashValue) -> types::MetadataHashValue {
    types::MetadataHashValue { lower: hash.lower, upper: hash.upper }
}

/// Returns what 0.2 calls the same; it is not passed on.
pub(super) const fn advice_of(_advice: types::Advice) -> old::Advice {
    old::Advice::Normal
}
