//! Which failures are a tool's own.

use crate::error::{CallError, ErrorKind};
use crate::reply::ToolReply;

/// A failure that is the tool's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// What it is called, as in the record.
    pub code: &'static str,
    /// What the caller read.
    pub message: String,
}

/// Returns the failure of a call that ran, where it is the tool's own. `had_its_time` says that the
/// caller gave no less time than the tool has.
pub fn anomaly(outcome: &Result<ToolReply, CallError>, had_its_time: bool) -> Option<Anomaly> {
    match outcome {
        Ok(reply) => {
            let code = reply.error_kind.filter(|kind| is_own_fault(kind))?;
            Some(Anomaly { code, message: text(reply) })
        }
        Err(error) => {
            let counts = match error.kind {
                ErrorKind::Timeout => had_its_time,
                ErrorKind::ToolFault | ErrorKind::Upstream => true,
                _ => false,
            };
            counts.then(|| Anomaly { code: error.kind.name(), message: error.message.clone() })
        }
    }
}

/// A tool of our own world has other words for arguments than `execution-failed`. A program's exit code, a
/// function's error, and what a server or a service says of a call may be about them: those have no others.
fn is_own_fault(kind: &str) -> bool {
    matches!(kind, "execution-failed" | "invalid-result" | "postcondition" | "trap")
}

fn text(reply: &ToolReply) -> String {
    reply.texts().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: ErrorKind) -> Result<ToolReply, CallError> {
        Err(CallError::new(kind, "no"))
    }

    #[test]
    fn only_what_is_the_tools_own_counts() {
        let own = [ErrorKind::Timeout, ErrorKind::ToolFault, ErrorKind::Upstream];
        for kind in ErrorKind::ALL {
            assert_eq!(anomaly(&failed(kind), true).is_some(), own.contains(&kind), "{kind:?}");
        }
        for (kind, counts) in [
            ("trap", true),
            ("execution-failed", true),
            ("invalid-result", true),
            ("unchecked-result", false),
            ("postcondition", true),
            ("exit", false),
            ("file-not-found", false),
            ("function-error", false),
            ("invalid-args", false),
            ("invalid-path", false),
            ("not-found", false),
            ("permission-denied", false),
            ("server-error", false),
            ("service-error", false),
            ("timeout", false),
        ] {
            let reply = Ok(ToolReply::error(kind, "no"));
            assert_eq!(anomaly(&reply, true).is_some(), counts, "{kind}");
        }
        assert_eq!(anomaly(&Ok(ToolReply::default()), true), None);
    }

    #[test]
    fn a_caller_that_gives_a_tool_too_little_time_gets_it_into_no_quarantine() {
        assert_eq!(anomaly(&failed(ErrorKind::Timeout), false), None);
        assert!(anomaly(&failed(ErrorKind::Upstream), false).is_some());
    }
}
