//! What definition files say of calls: composites and contracts; and tools that fail again and again.

limits! {
    DEFINITIONS;
    /// Attempts that a definition may ask for: with waits that double, the last ones are as good as never.
    RETRY_POLICY_ATTEMPTS_MAX: u64 = 10;
    /// Definition files that one runtime file may name.
    DEFINITION_FILES_MAX: usize = 256;
    /// Steps of a composite where the runtime file says nothing: what a person still sees through.
    COMPOSITE_STEPS_MAX: usize = 16;
    /// Steps that a runtime file may allow a composite.
    COMPOSITE_STEPS_CEILING_MAX: usize = 64;
    /// Paths in the arguments of one step: each is a copy of what it leads to, and nobody writes so many by hand.
    COMPOSITE_PATHS_MAX: usize = 256;
    /// What the steps of one composite may answer together, all of which it holds until it ends: six of the longest answers.
    COMPOSITE_VALUES_BYTES_MAX: usize = 67_108_864;
    /// Time of a composite that says none: as long as a conversation waits for all of a turn's tools.
    COMPOSITE_TIMEOUT_MS: u64 = 120_000;
    /// Calls that one call may make, with those that these make: ten times what anybody plans.
    NESTED_CALLS_MAX: usize = 256;
    /// Calls within calls, counted from the outermost: each is a record, an instance and a wait.
    NESTING_DEPTH_MAX: usize = 4;
    /// Calls over those that its profile grants after which a guest is stopped: each refusal is recorded, and a loop that
    /// tries every call in turn may still end by itself.
    TOOL_CALLS_REFUSED_MAX: usize = 256;
    /// Calls of one guest that run side by side: each may hold a result of 10 MiB and a place of its agent's.
    TOOL_CALLS_AT_ONCE_MAX: usize = 8;
    /// Conditions before and after the calls of one tool: each looks at a result as a whole at worst.
    CONTRACT_CONDITIONS_MAX: usize = 64;
    /// Refused calls in a row that are remembered, by agent and tool.
    REPAIR_LOOPS_MAX: usize = 4_096;
    /// Time after which refused arguments are counted anew.
    REPAIR_WINDOW_MS: u64 = 600_000;
    /// Failures of one kind that put a tool into quarantine: one is chance, and two may be.
    QUARANTINE_FAILURES_MAX: u32 = 3;
    /// Time within which they have to happen.
    QUARANTINE_WINDOW_MS: u64 = 600_000;
    /// A tool's first quarantine; each trial that fails doubles it.
    QUARANTINE_MS: u64 = 3_600_000;
    /// The longest quarantine between two trials: once a day a tool may show that it works again.
    QUARANTINE_MS_MAX: u64 = 86_400_000;
    /// Time failures are remembered that did not happen again.
    QUARANTINE_RETENTION_MS: u64 = 2_592_000_000;
    /// Kinds of failures that are remembered; the oldest ones make room.
    QUARANTINE_ANOMALIES_MAX: u32 = 4_096;
    /// What is looked at of a failure's message: an error says what it is at its beginning.
    QUARANTINE_MESSAGE_BYTES_MAX: usize = 512;
    /// Layers of the arguments whose keys tell one kind of failure from another.
    QUARANTINE_SHAPE_DEPTH_MAX: u32 = 4;
    /// What to do about a kind of failure, in words that callers read.
    QUARANTINE_PROCEDURE_BYTES_MAX: usize = 2_048;
}
