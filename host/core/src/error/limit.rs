//! The one table of the bounds that a refusal names.

/// Defines [`Limit`] by what it says of each.
macro_rules! bounds {
    ($($variant:ident: ($name:literal, $what:literal),)+) => {
        /// Which bound a call met: `data.limit` of its error.
        ///
        /// It has the name of the key that sets it, in `clawhost.yaml` or a document of the protocol; one that
        /// is built in has its name in `clawhost limits`, and what is no number a word of its own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Limit {
            $(#[doc = concat!($what, ".")] $variant),+
        }

        table! {
            /// Returns its name, and what it bounds.
            pub ALL, Limit::row: (&'static str, &'static str) {
                $($variant: ($name, $what)),+
            }
        }
    };
}

bounds! {
    ApprovalsPending: ("APPROVALS_PENDING_MAX", "Questions to a person at once, of all callers"),
    ApprovalsPendingPerPrincipal: ("APPROVALS_PENDING_PER_PRINCIPAL_MAX", "Questions to a person at once, of one caller"),
    ArgumentsBytes: ("arguments_bytes_max", "Arguments of a call"),
    BridgeRequests: ("BRIDGE_REQUESTS_MAX", "Calls at once for one MCP server"),
    CallRatesPrincipals: ("CALL_RATES_PRINCIPALS_MAX", "Callers whose calls are counted by the minute"),
    CallsPerMinute: ("rate_policy.calls_per_minute", "Calls of one tool by one caller, by its definition: those that began, and those that wait to begin"),
    CallsRunning: ("calls_running_max", "Calls that run at once"),
    CallsWaiting: ("calls_waiting_max", "Calls that wait for a place, of all callers or of one, which has a share of them"),
    ClawSessions: ("CLAW_SESSIONS_MAX", "Sessions of one agent over HTTP"),
    Code: ("code", "Nothing counts: the code of a component is not there yet, or could not be made just now"),
    CompositeValuesBytes: ("COMPOSITE_VALUES_BYTES_MAX", "What the steps of a composite answer"),
    ConnectionBytes: ("CONNECTION_BYTES_MAX", "Requests and answers under way on a connection"),
    ConnectionRequests: ("CONNECTION_REQUESTS_MAX", "Requests at once on a connection"),
    ContextWindow: ("max_context_window", "Tokens of one request to a provider, with its completion"),
    CostPerDay: ("cost_per_day_usd", "What providers may cost in a day, by a policy"),
    CreateEntries: ("create_entries_max", "Files and folders that one call makes"),
    Cycle: ("cycle", "Nothing counts: a tool is called within itself"),
    Fuel: ("fuel", "The fuel that a call has for its time: `FUEL_PER_MS` of `clawhost limits`"),
    KeyValueBytes: ("KEY_VALUE_BYTES_MAX", "The value of one key of an agent"),
    KeysBytes: ("KEYS_BYTES_MAX", "All values of keys of one agent"),
    KeysPerAgent: ("KEYS_PER_AGENT_MAX", "Keys of one agent"),
    LimitUsd: ("limit_usd", "What an agent may spend, by its budget"),
    ListEntries: ("LIST_ENTRIES_MAX", "Entries of folders that one call lists"),
    MaxRequests: ("max_requests", "Requests of an agent, by its budget"),
    MemoryAnswerBytes: ("MEMORY_ANSWER_BYTES_MAX", "The answer to a query of a memory store"),
    MemoryContentBytes: ("MEMORY_CONTENT_BYTES_MAX", "The content of an entry of a memory store"),
    MemoryEntries: ("MEMORY_ENTRIES_PER_CALL", "Entries that one request stores: at least one"),
    MemoryKeyBytes: ("MEMORY_KEY_BYTES_MAX", "The key of an entry of a memory store"),
    MemoryMb: ("memory_mb", "Linear memory of a call"),
    MemoryMetadataBytes: ("MEMORY_METADATA_BYTES_MAX", "The metadata of an entry of a memory store"),
    MemoryQuery: ("MEMORY_QUERY_MS", "The time of a query of a memory store"),
    MemoryQueryBytes: ("MEMORY_QUERY_BYTES_MAX", "The text of a query of a memory store"),
    MemorySize: ("max_size_mb", "A memory store"),
    NestedCalls: ("NESTED_CALLS_MAX", "Calls within one call"),
    NestingDepth: ("NESTING_DEPTH_MAX", "How deep calls are nested"),
    NullBytes: ("null_byte_detection", "Nothing counts: arguments have a NUL character, by a policy"),
    OpenFiles: ("max_open_files", "Files, folders and other handles that one call holds open"),
    OutputBytes: ("max_output_bytes", "The result of a tool, or what it hands over at once"),
    QuarantineThreshold: ("quarantine_threshold", "Failures of one kind, until the tool rests"),
    RandomBytes: ("RANDOM_BYTES_MAX", "Random bytes that a guest takes at once"),
    RepairAttempts: ("repair_policy.max_attempts", "Arguments refused in a row"),
    ReplayAnswerBytes: ("REPLAY_ANSWER_BYTES_MAX", "An answer that is kept to be given again"),
    ReplayBytes: ("REPLAY_BYTES_MAX", "Answers of one caller that are kept to be given again"),
    ReplayRows: ("REPLAY_ROWS_MAX", "Requests of one caller whose answers are kept"),
    ReplyBytes: ("reply_bytes_max", "A reply"),
    RequestsPerMinute: ("requests_per_minute", "Requests to a provider"),
    ResultsBytes: ("RESULTS_BYTES_MAX", "Results of one agent that are kept whole"),
    Shutdown: ("shutdown", "Nothing counts: the host is stopping"),
    ShutdownTimeout: ("shutdown_timeout_ms", "The time of requests after their session was stopped"),
    SizeBytes: ("max_size_bytes", "Arguments of a call, by a policy"),
    Spawns: ("SPAWNS_MAX", "Programs of one agent that run at once"),
    Startup: ("GUEST_STARTUP_MS", "The time in which a component has to start"),
    SwarmTasks: ("SWARM_TASKS_MAX", "Tasks that wait or run in a swarm, or a quarter of that for those who are not of it"),
    SwarmTasksBytes: ("SWARM_TASKS_BYTES_MAX", "What is said in these, likewise"),
    SwarmTokens: ("max_total_tokens", "Tokens of a swarm"),
    SwarmValueBytes: ("SWARM_VALUE_BYTES_MAX", "A value that agents of a swarm pass"),
    TableElements: ("GUEST_TABLE_ELEMENTS_MAX", "Elements of the tables of one call"),
    Timeout: ("timeout_ms", "The time of a call"),
    TokensPerDay: ("tokens_per_day", "Tokens of a provider in a day"),
    TokensPerHour: ("tokens_per_hour", "Tokens of all providers in an hour, by a policy"),
    TokensPerRequest: ("tokens_per_request", "Tokens of one request to a provider"),
    ToolCalls: ("tool_calls_max", "Calls of other tools that one call makes, by its profile"),
    ToolCallsPerMinute: ("tool_calls_per_minute", "Calls of one caller, by a policy: those that began, and those that wait to begin"),
    ToolOutputBytes: ("TOOL_OUTPUT_BYTES_MAX", "What a step of a composite is given"),
    WriteBytes: ("write_bytes_max", "Bytes that one call writes to files"),
}

impl Limit {
    /// Returns the name used in `data.limit`.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// Returns what it bounds.
    pub const fn what(self) -> &'static str {
        self.row().1
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::TABLE;

    #[test]
    fn each_has_a_name_of_its_own_and_one_in_capitals_is_printed_by_the_limits() {
        let mut names = Limit::ALL.map(Limit::name);
        for name in names.into_iter().filter(|name| name.starts_with(char::is_uppercase)) {
            assert!(TABLE.iter().any(|row| row.name == name), "{name}");
        }
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
