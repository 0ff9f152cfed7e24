//! Why something ends before its end.

use crate::world::FileError;

/// Why the execution of a list is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    Exit(i32),
    Return(i32),
    /// How many loops are left.
    Break(usize),
    Continue(usize),
    /// Nobody will read what this stage of a pipeline writes.
    PipeFull,
    /// The shell that runs ends with status 2 and this message; its parent goes on.
    Refused(String),
    /// A bound was reached: the script ends with this message.
    Fatal(String),
    /// The caller's time is over.
    Timeout,
}

/// A result of executing something, usually its exit status.
pub(crate) type Run<T = i32> = Result<T, Stop>;

/// Why a command has no result of its own.
#[derive(Debug)]
pub(crate) enum Fault {
    Stop(Stop),
    /// It fails with this status and message, which gets the command's name in front.
    Status(i32, String),
}

/// How a command ends.
pub(crate) type Done<T = i32> = Result<T, Fault>;

/// A wrong use of a command.
pub(crate) fn usage<T>(why: impl Into<String>) -> Done<T> {
    Err(Fault::Status(2, why.into()))
}

/// A failure with status 1.
pub(crate) fn failed<T>(why: impl Into<String>) -> Done<T> {
    Err(Fault::Status(1, why.into()))
}

impl From<Stop> for Fault {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<FileError> for Fault {
    fn from(FileError(why): FileError) -> Self {
        Self::Status(1, why)
    }
}
