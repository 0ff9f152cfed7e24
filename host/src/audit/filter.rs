//! Which calls and turns somebody asks for.

use clawhost_core::catalog::{ckp_name, meant};

use crate::clock;

/// What ended since a time, of one agent, of one tool; what is not said holds for all.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    since: Option<String>,
    agent: Option<String>,
    tool: Option<String>,
}

impl Filter {
    /// Returns the filter for what ended `since_ms` after 1970, UTC, or later, was done by `agent`, and is of
    /// `tool`, by any of its names.
    pub(crate) fn new(since_ms: Option<i64>, agent: Option<&str>, tool: Option<&str>) -> Self {
        let agent = agent.map(str::to_owned);
        Self { since: since_ms.map(clock::rfc3339), agent, tool: tool.map(plain) }
    }

    /// Says whether what ended at `time`, as records have it, is asked for.
    pub(crate) fn fits(&self, time: &str, agent: &str, tool: &str) -> bool {
        self.since.as_deref().is_none_or(|since| time >= since)
            && self.agent.as_deref().is_none_or(|it| it == agent)
            && self.tool.as_ref().is_none_or(|it| *it == plain(tool))
    }
}

/// Returns what all names of a tool have in common: its CKP name.
fn plain(tool: &str) -> String {
    let of_server = tool.split_once("__").map(|(server, tool)| format!("mcp.{server}.{tool}"));
    let name = of_server.as_deref().unwrap_or(tool);
    meant(name).unwrap_or_else(|_| ckp_name(name).replace('.', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_tool_means_it() {
        for names in [
            ["read_file", "read-file", "claw://local/tool/read-file"],
            ["git__log_all", "git-log-all", "mcp.git.log_all"],
            ["desk_execute_trade", "desk-execute-trade", "desk.execute_trade"],
        ] {
            for (asked, recorded) in names.iter().flat_map(|one| names.map(|other| (one, other))) {
                let filter = Filter::new(None, None, Some(asked));
                assert!(filter.fits("", "", recorded), "{asked} {recorded}");
            }
        }
        assert!(!Filter::new(None, None, Some("read_file")).fits("", "", "read_files"));
    }

    #[test]
    fn what_ended_in_the_second_that_is_named_is_there() {
        let at = |time| Filter::new(clock::read_rfc3339(time), Some("ada"), None);
        for time in ["2026-11-22T10:00:00Z", "2026-11-22T11:00:00+01:00"] {
            assert!(at(time).fits("2026-11-22T10:00:00.000Z", "ada", "t"), "{time}");
            assert!(at(time).fits("2026-11-22T10:00:00.500Z", "ada", "t"), "{time}");
            assert!(!at(time).fits("2026-11-22T09:59:59.999Z", "ada", "t"), "{time}");
            assert!(!at(time).fits("2026-11-22T10:00:00.500Z", "bob", "t"), "{time}");
        }
    }
}
