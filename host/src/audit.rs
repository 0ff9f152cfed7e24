//! The record: append-only, versioned, hash-chained; one opening and one closing record for
//! every call, denials included.
//!
//! Arguments and results are there as digests; in words only where a policy's `audit` block says
//! so. Deliberately absent: connections. Who carries copies elsewhere is told each line.

mod copies;
mod facts;
mod files;
mod filter;
mod findings;
mod head;
mod key;
mod log;
mod look;
mod opening;
mod receipt;
mod record;
mod retention;
mod room;
mod seal;
mod sign;
#[cfg(test)]
mod signatures;
mod span;
mod verify;

pub(crate) use copies::Copy;
pub use facts::{Fact, Facts};
pub use files::records;
pub(crate) use files::{chains, each_record, lines};
pub(crate) use filter::Filter;
pub(crate) use findings::Findings;
pub use key::{NoKey, PublicKey, SigningKey};
pub use log::{AuditLog, Terms};
pub use look::{Found, Place, Tail};
pub use receipt::{NoProof, Receipt};
pub use record::{Event, FORMAT_VERSION};
pub use span::CallSpan;
pub use verify::{ChainReport, Trust, verify};

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use clawhost_core::reply::ToolReply;

    use super::*;

    /// Says how the oldest chain breaks.
    fn broken(dir: &Dir) -> Option<String> {
        verify(dir, &Trust::default()).unwrap().remove(0).broken
    }

    fn logged(calls: usize) -> (tempfile::TempDir, Dir, String) {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let log = Arc::new(AuditLog::open(&dir, Terms::default()).unwrap());
        for call in 0..calls {
            let span =
                CallSpan::open(&log, &call.to_string(), "p", "t\n\"x", "sha256:0", &[]).unwrap();
            span.close(&Ok(ToolReply::default())).unwrap();
        }
        let name = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .find(|name| name.ends_with(".jsonl"))
            .unwrap();
        (folder, dir, name)
    }

    #[test]
    fn an_untouched_log_verifies_and_a_cancelled_call_is_closed() {
        let (_folder, dir, _) = logged(3);
        let log = Arc::new(AuditLog::open(&dir, Terms::default()).unwrap());
        drop(CallSpan::open(&log, "9", "p", "t", "sha256:0", &[]).unwrap());
        let reports = verify(&dir, &Trust::default()).unwrap();
        assert_eq!(reports.iter().map(|r| r.records).collect::<Vec<_>>(), [7, 3]);
        assert!(
            reports.iter().all(|r| r.broken.is_none() && r.unfinished_calls == 0),
            "{reports:?}"
        );
        let last = records(&dir).unwrap().pop().unwrap();
        assert_eq!(last["outcome"], "cancelled");
    }

    #[test]
    fn an_edited_dropped_or_reordered_line_is_found() {
        type Edit = fn(&mut Vec<String>);
        let edits: [(Edit, &str); 9] = [
            (|lines| lines[2] = lines[2].replace("\"ok\"", "\"no\""), "line 3: was edited"),
            (|lines| lines[0] = lines[0].replace("chain.opened", "x"), "line 1: was edited"),
            (|lines| lines[6] = lines[6].replace("\"ok\"", "\"no\""), "line 7: was edited"),
            (
                |lines| lines[3] = lines[3].replace("\"prev\":\"sha", "\"prev\":\"x"),
                "line 4: was edited",
            ),
            (|lines| drop(lines.drain(3..5)), "line 4: was line 6:"),
            (|lines| drop(lines.pop()), "ends after 6 of 7 records"),
            (Vec::clear, "ends after 0 of 7 records"),
            (|lines| lines.swap(2, 3), "line 3: was line 4:"),
            (|lines| lines.insert(2, lines[1].clone()), "line 3: was line 2:"),
        ];
        for (edit, told) in edits {
            let (folder, dir, name) = logged(3);
            let path = folder.path().join(&name);
            let text = std::fs::read_to_string(&path).unwrap();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            edit(&mut lines);
            let edited: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
            std::fs::write(&path, edited).unwrap();
            let broken = broken(&dir).unwrap_or_default();
            assert!(broken.starts_with(told), "{told}: {broken}");
        }
    }

    #[test]
    fn a_fifo_in_the_place_of_a_file_is_damage_and_is_not_waited_for() {
        for suffix in [".jsonl", ".head", ".signatures", "newest"] {
            let (folder, dir, name) = logged(1);
            let chain = name.trim_end_matches(".jsonl");
            let file =
                if suffix == "newest" { suffix.to_owned() } else { format!("{chain}{suffix}") };
            let path = folder.path().join(file);
            // Where it is there at all.
            drop(std::fs::remove_file(&path));
            let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
            rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
            let told = verify(&dir, &Trust::default());
            assert!(
                told.is_err() || broken(&dir).is_some() || suffix == "newest",
                "{suffix}: {told:?}"
            );
            drop(AuditLog::open(&dir, Terms::default()).unwrap());
        }
    }

    #[test]
    fn a_deleted_or_rewritten_chain_is_found_by_the_one_after_it() {
        let (folder, dir, name) = logged(1);
        drop(AuditLog::open(&dir, Terms::default()).unwrap());
        let reports = verify(&dir, &Trust::default()).unwrap();
        assert!(reports.iter().all(|report| report.broken.is_none()), "{reports:?}");
        let chain = name.trim_end_matches(".jsonl");
        let text = std::fs::read_to_string(folder.path().join(&name)).unwrap();
        // Rewritten from the start, with a head that fits: only the next chain knows better.
        for suffix in [".jsonl", ".head"] {
            std::fs::remove_file(folder.path().join(format!("{chain}{suffix}"))).unwrap();
        }
        assert!(
            verify(&dir, &Trust::default())
                .unwrap()
                .iter()
                .any(|report| report.chain == chain && report.broken.is_some())
        );
        let first = text.lines().next().unwrap();
        std::fs::write(folder.path().join(&name), format!("{first}\n")).unwrap();
        let head = format!("{:020} {}\n", 1, clawhost_core::digest::of_bytes(first.as_bytes()));
        std::fs::write(folder.path().join(format!("{chain}.head")), head).unwrap();
        assert!(broken(&dir).is_some());
    }

    #[test]
    fn the_newest_chain_cannot_go_missing_whole() {
        let (folder, dir, name) = logged(1);
        for suffix in [".jsonl", ".head"] {
            std::fs::remove_file(folder.path().join(name.replace(".jsonl", suffix))).unwrap();
        }
        assert!(broken(&dir).is_some());
    }

    #[test]
    fn a_head_that_is_behind_holds_and_one_of_another_record_does_not() {
        let (folder, dir, name) = logged(1);
        let text = std::fs::read_to_string(folder.path().join(&name)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let holds = |records: u64, line: &str| {
            let hash = clawhost_core::digest::of_bytes(line.as_bytes());
            let head = folder.path().join(name.replace(".jsonl", ".head"));
            std::fs::write(head, format!("{records:020} {hash}\n")).unwrap();
            broken(&dir).is_none()
        };
        assert!(holds(3, lines[2]) && holds(2, lines[1]));
        assert!(!holds(2, lines[0]) && !holds(4, lines[2]));
    }

    #[test]
    fn the_next_chain_names_an_end_that_the_head_of_a_killed_one_does_not_know() {
        let (folder, dir, name) = logged(2);
        let log = folder.path().join(&name);
        let text = std::fs::read_to_string(&log).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let hash = clawhost_core::digest::of_bytes(lines[0].trim_end().as_bytes());
        let head = folder.path().join(name.replace(".jsonl", ".head"));
        std::fs::write(head, format!("{:020} {hash}\n", 1)).unwrap();
        // Half a line is no record.
        std::fs::write(&log, format!("{text}{{\"v\":1")).unwrap();
        drop(AuditLog::open(&dir, Terms::default()).unwrap());
        let holds = |lines: &[&str]| {
            std::fs::write(&log, lines.concat()).unwrap();
            broken(&dir).is_none()
        };
        assert!(holds(&lines));
        for kept in 0..lines.len() {
            assert!(!holds(&lines[..kept]), "{kept} of {}", lines.len());
        }
    }

    #[test]
    fn the_next_chain_does_not_name_a_last_line_that_was_edited() {
        let (folder, dir, name) = logged(1);
        let head = dir.read_to_string(name.replace(".jsonl", ".head")).unwrap();
        let text = dir.read_to_string(&name).unwrap();
        std::fs::write(folder.path().join(&name), text.replace("\"ok\"", "\"no\"")).unwrap();
        drop(AuditLog::open(&dir, Terms::default()).unwrap());
        let next = super::files::chains(&dir).unwrap().pop().unwrap();
        let first = super::files::first_record(&dir, &next).unwrap();
        assert_eq!(first["previous_chain"]["head"], head.trim());
    }

    #[test]
    fn a_head_of_no_record_is_none() {
        let (folder, dir, name) = logged(1);
        let head = folder.path().join(name.replace(".jsonl", ".head"));
        std::fs::write(head, format!("{:020} sha256:0\n", 0)).unwrap();
        assert!(broken(&dir).is_some());
    }

    #[test]
    fn a_missing_log_or_head_is_found() {
        for suffix in [".jsonl", ".head"] {
            let (folder, dir, name) = logged(1);
            let name = name.replace(".jsonl", suffix);
            std::fs::remove_file(folder.path().join(name)).unwrap();
            assert!(broken(&dir).is_some(), "{suffix}");
        }
    }
}
