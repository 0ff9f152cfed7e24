//! What one call may use, how many run at the same time, and how long where the host stops.

limits! {
    CALLS;
    /// A tool's time where neither tool, profile nor caller say less (CKP default).
    TOOL_TIMEOUT_MS: u64 = 30_000;
    /// The longest a profile may allow one call, so that no manifest makes a call endless.
    TOOL_TIMEOUT_CEILING_MS: u64 = 3_600_000;
    /// Fuel per millisecond of timeout: above every measured rate of instructions, so the clock normally binds and a replay is exact. Only what copies or fills memory that the processor has at hand, at a unit a byte, uses it up sooner: in a sixth of the time.
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
    /// What a place among the running calls keeps of the memory that a guest wrote to, cleared, for the next one, which has fewer page faults: all that most tools touch. An idle host holds it for every place.
    GUEST_MEMORY_KEPT_BYTES: usize = 1_048_576;
    /// Elements of all tables of one call.
    GUEST_TABLE_ELEMENTS_MAX: usize = 100_000;
    /// Core instances of one component: componentize-py needs 38.
    GUEST_CORE_INSTANCES_MAX: usize = 64;
    /// Linear memories and tables of one component.
    GUEST_MEMORIES_MAX: usize = 8;
    /// Stack of a guest; deeper recursion traps. The stack that a call runs on has room for host calls beside it.
    GUEST_STACK_BYTES: usize = 524_288;
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
    /// Calls that hold an instance at the same time; the pool has twice as many and a few, for calls that components make and components that describe themselves.
    CALLS_RUNNING_MAX: usize = 64;
    /// Of the running calls and of those that wait, those of one agent: whatever it does, a quarter is left for the others.
    CALLS_PER_AGENT_PERMILLE: usize = 750;
    /// Agents whose share of the running calls is kept while they have none; of more, those without calls are forgotten.
    SHARES_KEPT_MAX: usize = 1_024;
    /// Calls that may wait for an instance; one more is refused as overload.
    CALLS_WAITING_MAX: usize = 1_024;
    /// Arguments of one call, as serialised JSON.
    ARGUMENTS_BYTES_MAX: usize = 4_194_304;
    /// Time running calls have to end when the host is asked to stop.
    SHUTDOWN_GRACE_MS: u64 = 5_000;
}
