//! MCP servers that are bridged.

limits! {
    BRIDGE;
    /// One message of a bridged MCP server: what a tool's raw output may be.
    BRIDGE_MESSAGE_BYTES_MAX: usize = 10_485_760;
    /// What is kept of a line that is too long: of an answer, its number stands there.
    LINE_BEGINNING_BYTES_MAX: usize = 128;
    /// Bytes a bridged server may write beside the answers that somebody waits for, and as many to standard error; more is a flood, and it is stopped.
    BRIDGE_UNASKED_BYTES_MAX: u64 = 67_108_864;
    /// What a line counts for among these at least: each is read for itself, and as many bytes could be as many empty ones.
    BRIDGE_LINE_BYTES_MIN: usize = 64;
    /// Time after which these bytes are counted anew: a server may talk for days.
    BRIDGE_UNASKED_MS: u64 = 60_000;
    /// Requests that wait for one bridged server at the same time: as many as calls run.
    BRIDGE_REQUESTS_MAX: usize = 64;
    /// Times at once that an HTTP server is told that nobody waits any longer: each holds a connection for a second at most.
    BRIDGE_CANCELS_MAX: usize = 8;
    /// Requests of one bridged program's own that wait for their answers at the same time, each of 1 KiB or of what a client answers. With more it does not read, and those are not answered.
    BRIDGE_ANSWERS_MAX: usize = 1_024;
    /// Requests to one program that nobody waits for any longer and that it may still answer. With more, nobody is asked what it wants to know for a while: it might want it for one that is forgotten.
    BRIDGE_LEFT_MAX: usize = 1_024;
    /// Time after which a program has given up a request that was cancelled and not answered, and asks nothing for it any longer: twice a tool's own time.
    BRIDGE_LEFT_MS: u64 = 60_000;
    /// Time in which a program has to give some answer once a call was given up, and be it that it is there: one that gives none goes on with that call, comes to no other, and is stopped.
    BRIDGE_SILENT_MS: u64 = 5_000;
    /// Time a bridged server has to say that it speaks the newest revision; then it is asked in the older way. Programs take up to three seconds to start.
    BRIDGE_PROBE_MS: u64 = 5_000;
    /// Time from the start of a bridged server until its tools are known.
    BRIDGE_START_MS: u64 = 30_000;
    /// Pages of one bridged server's list of tools.
    BRIDGE_PAGES_MAX: usize = 100;
    /// Tools of one bridged server: more than any client can use.
    BRIDGE_TOOLS_MAX: usize = 1_000;
    /// One bridged server's definitions of tools, as JSON.
    BRIDGE_DEFINITIONS_BYTES_MAX: usize = 8_388_608;
    /// What a bridged server says of itself for models to read; the rest is cut.
    BRIDGE_INSTRUCTIONS_BYTES_MAX: usize = 16_384;
    /// A bridged server's names for pages and sessions.
    BRIDGE_TOKEN_BYTES_MAX: usize = 4_096;
    /// The name of a prompt, or the address of a resource, of a bridged server.
    EXPOSED_NAME_BYTES_MAX: usize = 1_024;
    /// What a bridged server says of one prompt or resource; one that says more is left out of its list.
    EXPOSED_ITEM_BYTES_MAX: usize = 16_384;
    /// Questions that a bridged server asks a client at once.
    QUESTIONS_MAX: usize = 16;
    /// Times a call asks its client something while it waits: one answer makes a server ask for the next.
    QUESTION_ROUNDS_MAX: usize = 8;
    /// Time a call waits for its client's answers in all, beside its own: a person reads the questions.
    QUESTION_ANSWER_MS: u64 = 600_000;
    /// Time between a bridged server's word that its tools have changed and the look at them: it may say so often.
    BRIDGE_RELIST_PAUSE_MS: u64 = 500;
    /// Time between two looks at the tools of a bridged server that cannot say that they have changed.
    BRIDGE_RELIST_MS: u64 = 300_000;
    /// Time without a change of a bridged server's tools after which earlier changes are forgotten: each one doubles the time until the next look.
    BRIDGE_CALM_MS: u64 = 600_000;
    /// Time that verbs which only look wait for bridged servers; programs take up to three seconds to start.
    BRIDGE_LOOK_MS: u64 = 5_000;
    /// The wait before a bridged server that ended is started again; it doubles with each end.
    BRIDGE_RESTART_MS: u64 = 200;
    /// The longest such wait before the circuit opens.
    BRIDGE_RESTART_CEILING_MS: u64 = 30_000;
    /// Time a bridged server has to serve for its earlier ends to be forgotten.
    BRIDGE_STABLE_MS: u64 = 60_000;
    /// Ends in a row after which a bridged server's circuit is open.
    BRIDGE_ENDS_MAX: u32 = 5;
    /// Time between two attempts while the circuit is open.
    BRIDGE_CIRCUIT_MS: u64 = 60_000;
    /// Time a bridged server that is a program has to end by itself when its input is closed.
    BRIDGE_STOP_MS: u64 = 500;
    /// Files a bridged server that is a program may have open: Node opens a package's modules beside each other.
    BRIDGE_OPEN_FILES_MAX: u32 = 4_096;
    /// One line of a bridged server's standard error.
    BRIDGE_COMPLAINT_BYTES_MAX: usize = 4_096;
    /// Such lines that go to the log in `BRIDGE_COMPLAINTS_MS`; more are dropped.
    BRIDGE_COMPLAINTS_MAX: u32 = 100;
    /// Time after which these lines are counted anew.
    BRIDGE_COMPLAINTS_MS: u64 = 10_000;
    /// MCP servers one runtime file may name: each is a process or a connection.
    MCP_SERVERS_MAX: usize = 64;
    /// Name of an MCP server: half of a tool's, so that the tool's own part of it is readable.
    MCP_SERVER_NAME_BYTES_MAX: usize = 32;
    /// Name of a tool as its MCP server has it: what the protocol advises.
    MCP_TOOL_NAME_BYTES_MAX: usize = 128;
    /// Tools of one MCP server that are remembered: one that names ever new ones fills no disk.
    PINS_PER_SERVER_MAX: i64 = 4_096;
    /// Bytes that are remembered of the tools of one MCP server: what it accepted and what it says now, of twice the longest list.
    PINS_BYTES_PER_SERVER_MAX: i64 = 33_554_432;
}
