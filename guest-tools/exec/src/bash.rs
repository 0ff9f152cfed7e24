//! `bash_exec`: a command line with files, variables and a result.

use std::collections::BTreeMap;
use std::time::Duration;

use claw_tool::process::{self, Command, Ended, Outcome, Program};
use claw_tool::{ToolError, fs};
use serde_json::Value;

/// KB returned of a stream where the caller does not say less.
const OUTPUT_KB_MAX: u32 = 64;
/// KB of one file where the caller does not say less.
const FILE_KB_MAX: u32 = 256;
/// Begins the line with the result.
const RESULT_MARK: &str = "__RESULT__:";
/// Said where the end of the output is gone, and with it the line that comes last.
const RESULT_LOST: &str = "the end of standard output was not kept, so no result was looked for; print less before its line";

/// Arguments of `bash_exec`.
#[claw_tool::input]
pub(crate) struct BashExec {
    /// The command line, run by `bash -c` in the workspace.
    command: String,
    /// Milliseconds until the command and everything it started is killed. More than 300000
    /// counts as 300000.
    #[serde(default = "timeout_ms_default")]
    #[schemars(range(min = 1))]
    timeout_ms: u64,
    /// Variables for the command. Those that change which code runs (`PATH`, `LD_PRELOAD`, …)
    /// are refused.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Whether the command needs the network; refused where the host does not grant it.
    #[serde(default)]
    allow_network: bool,
    /// KB returned of each stream. More than 64 counts as 64.
    #[serde(default = "output_kb_default")]
    max_output_kb: u32,
    /// KB that one of `files` may have. More than 256 counts as 256.
    #[serde(default = "file_kb_default")]
    max_file_kb: u32,
    /// Files to write in the workspace first; missing folders on the way are made.
    #[serde(default)]
    files: Vec<InputFile>,
}

/// A file to write before the command runs.
#[claw_tool::input]
struct InputFile {
    /// The file, relative to the workspace.
    path: String,
    /// The whole content.
    content: String,
}

/// How the command ended, what it said, and its result.
#[claw_tool::output]
pub(crate) struct BashEnded {
    #[serde(flatten)]
    ended: Ended,
    /// The JSON of the last line of standard output that begins with `__RESULT__:`.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_json: Option<Value>,
    /// Why there is no result: the end of the output was not kept, or its line is no JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

fn timeout_ms_default() -> u64 {
    2_000
}

fn output_kb_default() -> u32 {
    OUTPUT_KB_MAX
}

fn file_kb_default() -> u32 {
    FILE_KB_MAX
}

pub(crate) fn bash_exec(args: &BashExec) -> Result<BashEnded, ToolError> {
    let command = command(args)?;
    check_files(args)?;
    for file in &args.files {
        fs::write(&file.path, file.content.as_bytes())?;
    }
    Ok(ended(process::run(&command)?, bytes(args.max_output_kb.min(OUTPUT_KB_MAX))))
}

fn ended(outcome: Outcome, bytes_max: usize) -> BashEnded {
    // The host keeps a beginning, whose last result may not be the command's last.
    let is_whole = outcome.stdout_bytes <= outcome.stdout.len() as u64;
    // Before the stream is cut: the result comes last.
    let found = if is_whole { result(&outcome.stdout) } else { Err(RESULT_LOST.to_owned()) };
    let (result_json, warning) = match found {
        Ok(result) => (result, None),
        Err(why) => (None, Some(why)),
    };
    BashEnded { ended: Ended::from(cut(outcome, bytes_max)), result_json, warning }
}

fn command(args: &BashExec) -> Result<Command, ToolError> {
    if args.timeout_ms == 0 {
        return Err(ToolError::invalid_args("timeout_ms must be above 0"));
    }
    let program = Program::Bash(crate::line(&args.command)?);
    let mut command = crate::command(program, Duration::from_millis(args.timeout_ms));
    command.env = args.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    command.network = args.allow_network;
    Ok(command)
}

fn check_files(args: &BashExec) -> Result<(), ToolError> {
    let max = bytes(args.max_file_kb.min(FILE_KB_MAX));
    match args.files.iter().find(|file| file.content.len() > max) {
        None => Ok(()),
        Some(file) => Err(ToolError::invalid_args(format!(
            "the file {:?} has {} bytes, at most {max} are taken",
            file.path,
            file.content.len()
        ))),
    }
}

fn bytes(kb: u32) -> usize {
    usize::try_from(kb).unwrap_or(usize::MAX).saturating_mul(1_024)
}

fn cut(mut outcome: Outcome, bytes_max: usize) -> Outcome {
    outcome.stdout.truncate(bytes_max);
    outcome.stderr.truncate(bytes_max);
    outcome
}

/// Returns what the last line that begins with the mark says, or why that is nothing: the command has run, so what
/// else it said is told all the same.
fn result(stdout: &[u8]) -> Result<Option<Value>, String> {
    let lines = stdout.split(|byte| *byte == b'\n').rev();
    let Some(json) = lines.filter_map(|line| line.strip_prefix(RESULT_MARK.as_bytes())).next()
    else {
        return Ok(None);
    };
    serde_json::from_slice(json)
        .map(Some)
        .map_err(|error| format!("there is no result: the line {RESULT_MARK} is no JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(json: Value) -> BashExec {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn what_is_left_out_is_two_seconds_and_nothing_else() {
        let command = command(&args(serde_json::json!({"command": "ls"}))).unwrap();
        assert_eq!((command.timeout_ms, command.network, command.env.len()), (2_000, false, 0));
        let none = args(serde_json::json!({"command": "ls", "timeout_ms": 0}));
        assert!(super::command(&none).is_err());
    }

    #[test]
    fn a_file_is_bounded_by_the_lesser_of_both_bounds() {
        let with = |kb: u32, bytes: usize| {
            let file = serde_json::json!({"path": "f", "content": "x".repeat(bytes)});
            let args =
                args(serde_json::json!({"command": "ls", "max_file_kb": kb, "files": [file]}));
            check_files(&args).is_ok()
        };
        assert_eq!([with(1, 1_024), with(1, 1_025)], [true, false]);
        assert_eq!([with(999, 256 << 10), with(999, (256 << 10) + 1)], [true, false]);
    }

    #[test]
    fn the_result_is_the_last_line_that_says_so() {
        let of = |text: &str| result(text.as_bytes());
        assert_eq!(of("a\nno __RESULT__:1\n").unwrap(), None);
        let last = of("__RESULT__:1\nx\n__RESULT__: {\"a\": [2]}\ny").unwrap();
        assert_eq!(last, Some(serde_json::json!({"a": [2]})));
        assert!(of("__RESULT__:{").is_err());
    }

    fn outcome(stdout: &[u8], stdout_bytes: u64) -> Outcome {
        Outcome {
            exit_code: Some(0),
            stdout: stdout.to_vec(),
            stderr: Vec::new(),
            stdout_bytes,
            stderr_bytes: 0,
            duration_ms: 0,
        }
    }

    #[test]
    fn of_a_stream_whose_end_is_gone_no_result_is_made() {
        let line = b"__RESULT__:1";
        let whole = ended(outcome(line, 12), 100);
        assert_eq!((whole.result_json, whole.warning), (Some(Value::from(1)), None));
        // Of `__RESULT__:123`, and of one that was taken back.
        for stdout_bytes in [14, 2_000_000] {
            let cut = ended(outcome(line, stdout_bytes), 100);
            assert!(cut.result_json.is_none() && cut.warning.is_some(), "{cut:?}");
        }
        assert_eq!(ended(outcome(b"__RESULT__:{", 2_000_000), 100).warning.unwrap(), RESULT_LOST);
    }

    #[test]
    fn a_result_that_is_no_json_hides_nothing_of_what_the_command_said() {
        let line = b"done\n__RESULT__:{";
        let said = ended(outcome(line, line.len() as u64), 100);
        assert!(said.result_json.is_none() && said.warning.unwrap().contains("no JSON"));
        assert!(format!("{:?}", said.ended).contains("done"));
    }

    #[test]
    fn a_stream_is_cut_and_its_true_size_kept() {
        let outcome = cut(outcome(&[b'x'; 100], 100), 10);
        assert_eq!((outcome.stdout.len(), outcome.stdout_bytes), (10, 100));
    }
}
