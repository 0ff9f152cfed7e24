//! Every default bound: a const with its unit in its name, and where the number comes from.
//!
//! `clawhost limits` prints [`TABLE`]. A bound that is not here does not exist.

/// One row of the table that `clawhost limits` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The const's name, unit last.
    pub name: &'static str,
    /// Its value, in the unit the name ends with.
    pub value: u64,
    /// What it bounds, and why it has this value.
    pub reason: &'static str,
}

macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $name:ident: $ty:ty = $value:expr;)+) => {
        $($(#[doc = $doc])+ pub const $name: $ty = $value;)+

        /// All bounds, in the order of this file.
        pub const TABLE: &[Limit] = &[$(Limit {
            name: stringify!($name),
            value: $name as u64,
            reason: concat!($($doc),+),
        }),+];
    };
}

limits! {
    /// A tool's time where neither tool, profile nor caller say less (CKP default).
    TOOL_TIMEOUT_MS: u64 = 30_000;
    /// The longest a profile may allow one call, so that no manifest makes a call endless.
    TOOL_TIMEOUT_CEILING_MS: u64 = 3_600_000;
    /// Fuel per millisecond of timeout: above every measured rate, so the clock normally binds and a replay is exact.
    FUEL_PER_MS: u64 = 20_000_000;
    /// Fuel between two looks at the clock: measured 0.03 to 0.08 ms late, at under 5 % cost.
    FUEL_YIELD_INTERVAL: u64 = 100_000;
    /// Fuel charged for entering a host call, so that a loop of tiny host calls advances the budget.
    FUEL_PER_HOST_CALL: u64 = 1_000;
    /// Time a guest may spend in host calls before other calls get a turn.
    HOST_CALLS_TURN_US: u64 = 500;
    /// Instantiating a component or asking it to describe itself, before any call's clock.
    GUEST_STARTUP_MS: u64 = 1_000;
    /// Linear memory of a call where the profile does not say; also bounds the lateness of one bulk operation (0.5 ms a MiB).
    GUEST_MEMORY_MB: u64 = 64;
    /// The most linear memory a profile may grant: what a pooled slot reserves.
    GUEST_MEMORY_CEILING_MB: u64 = 1_024;
    /// Elements of all tables of one call.
    GUEST_TABLE_ELEMENTS_MAX: usize = 100_000;
    /// Core instances of one component: componentize-py needs 38.
    GUEST_CORE_INSTANCES_MAX: usize = 64;
    /// Linear memories and tables of one component.
    GUEST_MEMORIES_MAX: usize = 8;
    /// Handles (files, streams, requests) one call may hold at once where the profile does not say.
    OPEN_FILES_MAX: u32 = 64;
    /// Entries of one call's resource table: open files, and the streams and pollables made from them.
    RESOURCES_MAX: usize = 4_096;
    /// Bytes one host call may lift out of a guest (the engine's own default is 128 MiB).
    HOST_CALL_BYTES_MAX: usize = 16_777_216;
    /// Random bytes of one request by a guest.
    RANDOM_BYTES_MAX: u64 = 65_536;
    /// Raw output of a tool that is kept; more is refused as an output limit.
    TOOL_OUTPUT_BYTES_MAX: usize = 10_485_760;
    /// A reply at the outermost level, as serialised JSON; the rest is cut with the true size stated.
    REPLY_BYTES_MAX: usize = 65_536;
    /// Text of one tool-error or trap shown to a caller.
    ERROR_TEXT_BYTES_MAX: usize = 4_096;
    /// Standard output and error of a guest, captured for the log.
    GUEST_LOG_BYTES_MAX: usize = 262_144;
    /// Lines one call may write through the log interface.
    GUEST_LOG_LINES_MAX: u32 = 1_000;
    /// One line of the log interface.
    GUEST_LOG_LINE_BYTES_MAX: usize = 4_096;
    /// Time between two progress reports of a call that are forwarded: at most 10 a second.
    PROGRESS_PAUSE_MS: u64 = 100;
    /// Calls that hold an instance at the same time; the pool has a few more, for components that describe themselves.
    CALLS_RUNNING_MAX: usize = 64;
    /// Calls that may wait for an instance; one more is refused as overload.
    CALLS_WAITING_MAX: usize = 1_024;
    /// Arguments of one call, as serialised JSON.
    ARGUMENTS_BYTES_MAX: usize = 4_194_304;
    /// A `.wasm` or `.wat` file.
    COMPONENT_BYTES_MAX: u64 = 67_108_864;
    /// Functions in one component: compiling cannot be interrupted, so its work is bounded first.
    COMPONENT_FUNCTIONS_MAX: u64 = 100_000;
    /// The body of one function in a component.
    COMPONENT_FUNCTION_BYTES_MAX: u64 = 1_048_576;
    /// Blocks nested in one function: a switch of a large interpreter has hundreds.
    COMPONENT_BLOCK_DEPTH_MAX: u64 = 5_000;
    /// Locals times blocks, summed over all functions: what the compiler's time grows with.
    COMPONENT_WORK_MAX: u64 = 500_000_000;
    /// Types in one component, nested ones included.
    COMPONENT_TYPES_MAX: u64 = 100_000;
    /// Modules and components nested inside one component, and their depth.
    COMPONENT_NESTING_MAX: u64 = 100;
    /// Tools one component may describe.
    COMPONENT_TOOLS_MAX: usize = 256;
    /// Name of a tool as MCP clients see it.
    TOOL_NAME_BYTES_MAX: usize = 64;
    /// Description of a tool.
    TOOL_DESCRIPTION_BYTES_MAX: usize = 16_384;
    /// One JSON Schema of a tool.
    TOOL_SCHEMA_BYTES_MAX: usize = 262_144;
    /// Subschemas that one check of a value may evaluate: about a second of work, beside the threads that serve.
    SCHEMA_EVALUATIONS_MAX: u64 = 20_000_000;
    /// One compiled `pattern` of a JSON Schema: matching costs by its size.
    SCHEMA_PATTERN_BYTES_MAX: u64 = 262_144;
    /// All compiled patterns of one JSON Schema.
    SCHEMA_PATTERNS_BYTES_MAX: u64 = 524_288;
    /// Nesting of JSON that is read from a caller, a guest or a file.
    JSON_DEPTH_MAX: usize = 128;
    /// One line on stdio, and one HTTP request body.
    MESSAGE_BYTES_MAX: usize = 4_194_304;
    /// Requests of one connection that may run at the same time.
    CONNECTION_REQUESTS_MAX: usize = 256;
    /// Bytes of all requests that run on one connection: parsed JSON takes several times its text.
    CONNECTION_BYTES_MAX: usize = 16_777_216;
    /// Progress reports of one call that are passed on; a report is advice, never owed.
    CALL_PROGRESS_MAX: u32 = 1_000;
    /// Progress reports of one call that wait for a slow client; more are dropped.
    CALL_PROGRESS_QUEUE_MAX: usize = 16;
    /// Headers of one HTTP request to the host.
    HTTP_HEADER_BYTES_MAX: usize = 32_768;
    /// HTTP connections open at the same time.
    HTTP_CONNECTIONS_MAX: usize = 256;
    /// HTTP requests one agent may have in flight: a quarter of the connections, so that none shuts others out.
    HTTP_REQUESTS_PER_AGENT_MAX: usize = 64;
    /// Streams without an end (of changed tools) one agent may hold open over HTTP: each keeps a connection.
    HTTP_STREAMS_PER_AGENT_MAX: usize = 16;
    /// Time an HTTP client has to send its headers.
    HTTP_HEADER_READ_MS: u64 = 10_000;
    /// Time an HTTP client has to send one request body.
    HTTP_BODY_READ_MS: u64 = 30_000;
    /// Sessions of the older MCP revisions one agent may hold over HTTP; idle ones end by themselves.
    HTTP_SESSIONS_MAX: usize = 64;
    /// A manifest or any other document.
    DOCUMENT_BYTES_MAX: usize = 1_048_576;
    /// Documents one run may load.
    DOCUMENTS_MAX: usize = 1_000;
    /// Files the drop-in directory may hold.
    DROP_IN_FILES_MAX: usize = 1_000;
    /// Quiet time after the last change of the drop-in directory before it is read again.
    DROP_IN_DEBOUNCE_MS: u64 = 100;
    /// The drop-in directory is also read this often, where the system drops notifications.
    DROP_IN_RESCAN_MS: u64 = 500;
    /// Time to connect to an upstream, of a request's own limits.
    EGRESS_CONNECT_MS: u64 = 10_000;
    /// Time to the first byte of an upstream's answer, and between two bytes of it.
    EGRESS_READ_MS: u64 = 30_000;
    /// Bytes of one upstream answer handed to a guest.
    EGRESS_BODY_BYTES_MAX: u64 = 67_108_864;
    /// Requests one call may send.
    EGRESS_REQUESTS_MAX: u32 = 100;
    /// The header section of one upstream answer, and its trailers.
    EGRESS_HEADER_BYTES_MAX: usize = 65_536;
    /// Header lines of one upstream answer.
    EGRESS_HEADERS_MAX: usize = 128;
    /// Addresses of one name that are tried; every answer is checked all the same.
    EGRESS_ADDRESSES_MAX: usize = 8;
    /// Outgoing connections of the whole host, so that guests cannot use up its sockets.
    EGRESS_CONNECTIONS_MAX: usize = 256;
    /// Outgoing connections one call may hold at once, so that one call cannot take them all.
    EGRESS_CONNECTIONS_PER_CALL_MAX: usize = 16;
    /// Name look-ups at the same time: each holds a thread until the system answers.
    EGRESS_LOOKUPS_MAX: usize = 32;
    /// Refused requests of one call that are told apart in its record; more are only counted.
    EGRESS_VIOLATIONS_MAX: usize = 16;
    /// Directory entries one call may list, over all listings.
    LIST_ENTRIES_MAX: u64 = 100_000;
    /// Bytes one call may write to granted directories.
    WRITE_BYTES_MAX: u64 = 1_073_741_824;
    /// Files and directories one call may create.
    CREATE_ENTRIES_MAX: u64 = 10_000;
    /// A path given by a guest.
    PATH_BYTES_MAX: usize = 4_096;
    /// A shell command line.
    SCRIPT_BYTES_MAX: usize = 65_536;
    /// Native processes of one call where the profile does not say.
    PROCESSES_MAX: u32 = 32;
    /// A native process's output per stream where the profile does not say.
    PROCESS_OUTPUT_BYTES_MAX: u64 = 1_048_576;
    /// A native process's address space.
    PROCESS_MEMORY_MB: u64 = 512;
    /// One file a native process may write.
    PROCESS_FILE_BYTES_MAX: u64 = 1_073_741_824;
    /// One line of the audit log; longer arguments are recorded by digest only.
    AUDIT_RECORD_BYTES_MAX: usize = 65_536;
    /// Work that waits for the embedded store; more waits in its caller.
    DATABASE_JOBS_MAX: usize = 1_024;
    /// Time one host waits for another that writes to the same store.
    DATABASE_WAIT_MS: u64 = 5_000;
    /// Time running calls have to end when the host is asked to stop.
    SHUTDOWN_GRACE_MS: u64 = 5_000;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_positive_and_carries_its_unit_and_reason() {
        const UNITS: [&str; 7] = ["_MS", "_US", "_MB", "_MAX", "_INTERVAL", "_CALL", "_BYTES"];
        for limit in TABLE {
            assert!(limit.value > 0, "{} is zero", limit.name);
            assert!(limit.reason.len() > 20, "{} has no reason", limit.name);
            assert!(UNITS.iter().any(|unit| limit.name.ends_with(unit)), "{}", limit.name);
        }
    }
}
