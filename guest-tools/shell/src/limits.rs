//! Every bound of the shell, with its unit and its reason.

/// One script: what the host's jail takes as well.
pub(crate) const SCRIPT_BYTES_MAX: usize = 131_072;

/// Standard output and error that are returned, each; the rest is counted. Both fit a reply even
/// where every other byte is escaped; files hold more.
pub(crate) const OUTPUT_BYTES_MAX: usize = 16_384;

/// What one command may hand to the next: the commands of a pipeline run one after the other.
pub(crate) const PIPE_BYTES_MAX: usize = 8_388_608;

/// What one `$(…)` may become, and one value of a variable.
pub(crate) const VALUE_BYTES_MAX: usize = 1_048_576;

/// All variables together; a subshell shares their text.
pub(crate) const VARIABLES_BYTES_MAX: usize = 8_388_608;

/// Fields that one command line, or one list of `for`, may expand to.
pub(crate) const FIELDS_MAX: usize = 100_000;

/// Constructs nested in a script: each takes some 2 KiB of stack to parse and to run.
pub(crate) const SYNTAX_DEPTH_MAX: usize = 60;

/// Calls of functions, subshells and substitutions inside one another, for the same reason.
pub(crate) const CALL_DEPTH_MAX: usize = 100;

/// Commands between two looks at the clock.
pub(crate) const TICKS_PER_LOOK: usize = 256;

/// Bytes that count like one more command, when something goes over a long text.
pub(crate) const BYTES_PER_TICK: usize = 4_096;

/// Lines that are sorted at once, between two looks at the clock.
pub(crate) const LINES_PER_SORT: usize = 4_096;

/// Bytes read from a file at once.
pub(crate) const CHUNK_BYTES: usize = 65_536;

/// What a command that needs its whole input at once (`sort`, `sed -i`, `jq`) may read.
pub(crate) const WHOLE_BYTES_MAX: usize = 10_485_760;

/// Folders inside folders that are walked.
pub(crate) const FOLDER_DEPTH_MAX: usize = 64;
