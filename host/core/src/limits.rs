//! The bounds of what a caller, a tool, a service or a document may use of a host: consts with their units in their
//! names, and where each number comes from.
//!
//! `clawhost limits` prints [`TABLE`]. Deliberately absent: what bounds a module's own work, such as what a message
//! quotes or how a read is cut into pieces, which stands beside the code that knows why.

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
    /// A `.wasm` or `.wat` file.
    COMPONENT_BYTES_MAX: u64 = 67_108_864;
    /// A component in text form: it is parsed in the host, which takes 75 times as much memory. People write tens of
    /// kilobytes; what is longer was generated, and can be made binary.
    COMPONENT_TEXT_BYTES_MAX: usize = 1_048_576;
    /// Compiled code on disk, of all hosts that share the folder: what was used longest ago makes room, and is compiled again when it is needed.
    CODE_CACHE_BYTES_MAX: u64 = 4_294_967_296;
    /// Memory of the program that compiles one component.
    COMPILER_MEMORY_MB: u64 = 4_096;
    /// Time of the program that compiles one component, at a low priority: the largest interpreter takes 10 s of a free core.
    COMPILER_TIMEOUT_MS: u64 = 600_000;
    /// Compiled code of one component.
    COMPILED_BYTES_MAX: u64 = 536_870_912;
    /// Functions in one component: what compiling takes is bounded first by what there is to compile.
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
    /// Imports and exports of one component or core module, not of what is nested in it: an interpreter exports thousands.
    COMPONENT_NAMES_MAX: usize = 100_000;
    /// Tools one component may describe.
    COMPONENT_TOOLS_MAX: usize = 256;
    /// Memory that the schemas of all tools of one component take, parts counted as in `JSON_NODES_MAX`: a small file
    /// can describe gigabytes, and the host holds five copies as long as the file is there. Tens of thousands of properties.
    COMPONENT_SCHEMAS_BYTES_MAX: usize = 16_777_216;
    /// What a component says about its functions in `package-docs`.
    COMPONENT_DOCS_BYTES_MAX: usize = 262_144;
    /// Types, fields and cases of one exported function, written out: each is a part of its JSON Schemas.
    FUNCTION_TYPES_MAX: usize = 2_000;
    /// Values in the arguments of one call of an exported function: each takes 40 bytes and more in the host.
    FUNCTION_VALUES_MAX: usize = 100_000;
    /// Bytes one call of an exported function may lift out, as the engine counts them: a list of flags takes up to 24 times as much in the host.
    FUNCTION_CALL_BYTES_MAX: usize = 4_194_304;
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
    /// Values in one JSON Schema, each of which may be a subschema: compiling is bounded before it starts.
    SCHEMA_SUBSCHEMAS_MAX: usize = 10_000;
    /// Subschemas for one and the same value within each other (`anyOf` in `$ref` in `allOf` …).
    SCHEMA_NESTING_MAX: usize = 128;
    /// All mismatches of one value, which a validator makes before it hands out any.
    SCHEMA_MISMATCHES_BYTES_MAX: u64 = 67_108_864;
    /// All compiled patterns of the documents of one load: compiling them takes well under a second.
    MANIFEST_PATTERNS_BYTES_MAX: u64 = 4_194_304;
    /// Nesting of JSON that is read from a caller, a guest or a file.
    JSON_DEPTH_MAX: usize = 128;
    /// Parts of JSON that is read, of 64 bytes of memory each: every value is one, and an object with entries ten more. The longest message may hold nothing but numbers.
    JSON_NODES_MAX: usize = 2_097_152;
    /// One line on stdio, and one HTTP request body; of those for completions, some are longer.
    MESSAGE_BYTES_MAX: usize = 4_194_304;
    /// Requests of one connection that may run at the same time.
    CONNECTION_REQUESTS_MAX: usize = 256;
    /// Bytes of all requests that run on one connection: parsed JSON takes several times its text.
    CONNECTION_BYTES_MAX: usize = 16_777_216;
    /// Requests beside those that are about the calls themselves (an approval, a shutdown): what fills a connection must not shut out what empties it.
    CONNECTION_RESERVE_MAX: usize = 16;
    /// One such request, which holds an id and a reason.
    URGENT_REQUEST_BYTES_MAX: usize = 65_536;
    /// Progress reports of one call that are passed on; a report is advice, never owed.
    CALL_PROGRESS_MAX: u32 = 1_000;
    /// Progress reports of one call that wait for a slow client; more are dropped.
    CALL_PROGRESS_QUEUE_MAX: usize = 16;
    /// Headers of one HTTP request to the host.
    HTTP_HEADER_BYTES_MAX: usize = 32_768;
    /// HTTP connections open at the same time.
    HTTP_CONNECTIONS_MAX: usize = 256;
    /// HTTP connections that wait to be taken: where there are more, the system lets a client try again after a second.
    HTTP_BACKLOG_MAX: i32 = 1_024;
    /// Time after which a client that takes nothing of an answer is given up, with what was kept for it.
    HTTP_SEND_MS: u32 = 60_000;
    /// HTTP requests one agent may have in flight: a quarter of the connections, so that none shuts others out.
    HTTP_REQUESTS_PER_AGENT_MAX: usize = 64;
    /// Time a request waits for a place that a client of the same agent, having just hung up, is about to give back, and
    /// a console's question for one that another is about to.
    HTTP_GIVEN_BACK_MS: u64 = 250;
    /// HTTP requests beside those that are about the calls themselves: an answer to a question, a shutdown.
    HTTP_URGENT_PER_AGENT_MAX: usize = 4;
    /// The part of all connections that ordinary requests leave to urgent ones: one in so many.
    HTTP_RESERVED_PART_MAX: usize = 16;
    /// Streams without an end (of changed tools) one agent may hold open over HTTP: each keeps a connection.
    HTTP_STREAMS_PER_AGENT_MAX: usize = 16;
    /// Time an HTTP client has to send its headers.
    HTTP_HEADER_READ_MS: u64 = 10_000;
    /// Time an HTTP client has to send one request body.
    HTTP_BODY_READ_MS: u64 = 30_000;
    /// Time between two signs of life on a stream of events where there is nothing to say.
    EVENTS_INTERVAL_MS: u64 = 15_000;
    /// Sessions of the older MCP revisions one agent may hold over HTTP; idle ones end when their agent begins a
    /// session or names one, and the one unused longest where all are taken.
    HTTP_SESSIONS_MAX: usize = 64;
    /// Time without a listener and without a request under way after which such a session is idle.
    HTTP_SESSION_IDLE_MS: u64 = 300_000;
    /// Messages that such a session keeps for each stream of a client that reads late. An answer is at most
    /// `REPLY_BYTES_MAX`, so that an agent makes the host keep at most 16 MiB of them in all its sessions.
    HTTP_SESSION_MESSAGES_MAX: usize = 4;
    /// Time an answer is kept whose client had gone, for one that comes back for it: ten times the pause it was told to
    /// make. A session keeps as many as it does messages, each of twice `REPLY_BYTES_MAX` at the most: 32 MiB in all
    /// sessions of an agent.
    HTTP_ANSWER_KEPT_MS: u64 = 30_000;
    /// Sessions of the clients of one wrapped server; the one idle for longest gives its place to another.
    WRAP_SESSIONS_MAX: usize = 1_000;
    /// Requests and notifications of one such session that wait for the server at the same time: a quarter of all that may.
    WRAP_SESSION_REQUESTS_MAX: usize = BRIDGE_REQUESTS_MAX / 4;
    /// Clients of a wrapped server that hear what it says unasked: a quarter of the connections.
    WRAP_STREAMS_MAX: usize = HTTP_CONNECTIONS_MAX / 4;
    /// Messages that a wrapped server says unasked, kept for clients that read late; they miss the oldest.
    WRAP_UNASKED_MAX: usize = 64;
    /// Reports and questions of one request to a wrapped server, kept for a client that reads late; it misses later reports.
    WRAP_SAID_MAX: usize = 16;
    /// One such message; longer ones are passed to nobody.
    WRAP_UNASKED_BYTES_MAX: usize = 65_536;
    /// One request to a wrapped server, where nothing else is said.
    WRAP_BODY_BYTES: usize = 1_048_576;
    /// The time of one request to a wrapped server, where nothing else is said.
    WRAP_REQUEST_MS: u64 = 60_000;
    /// The wait before a wrapped server that ended is started again, where nothing else is said; it doubles with each end.
    WRAP_RESTART_MS: u64 = 1_000;
    /// The longest such wait, where nothing else is said.
    WRAP_RESTART_CEILING_MS: u64 = 15_000;
    /// A manifest or any other document.
    DOCUMENT_BYTES_MAX: usize = 1_048_576;
    /// Nesting of one document, of which schemas are the deepest thing. Its reader recurses, at up to 38 KiB of stack a level in an unoptimised build, and threads have 2 MiB.
    DOCUMENT_DEPTH_MAX: usize = 32;
    /// Values in one document, so that a small file cannot make a large tree.
    DOCUMENT_NODES_MAX: usize = 100_000;
    /// Values made by all aliases of one document together; with the next it bounds what aliases can blow up.
    DOCUMENT_ALIAS_NODES_MAX: usize = 1_000;
    /// One text in a document.
    DOCUMENT_TEXT_BYTES_MAX: usize = 65_536;
    /// Directories that one pattern of documents (`tools/**/*.yaml`) may look into.
    GLOB_VISITS_MAX: usize = 10_000;
    /// Attempts at a call that fails for a passing reason, where its document asks for retries and does not say (CKP default).
    RETRY_ATTEMPTS_MAX: u32 = 3;
    /// Time between two heartbeats where the Claw does not say (CKP default).
    HEARTBEAT_MS: u64 = 30_000;
    /// The least time between two heartbeats a Claw can ask for: more often only makes noise.
    HEARTBEAT_FLOOR_MS: u64 = 1_000;
    /// Registries a host may ask: all of them are asked for what none has.
    REGISTRIES_MAX: usize = 16;
    /// Documents one load may fetch from registries: what is fetched can refer to more.
    REGISTRY_PACKAGES_MAX: usize = 64;
    /// All components one load may fetch from registries, as they are held in memory until they are compiled.
    REGISTRY_COMPONENTS_BYTES_MAX: usize = 268_435_456;
    /// A registry's answer that says what it holds under one address, with the longest signature.
    REGISTRY_INDEX_BYTES_MAX: usize = 8_192;
    /// Time a registry has to begin an answer, and between two pieces of it.
    REGISTRY_READ_MS: u64 = 10_000;
    /// Time for everything that one load asks registries for, so that a slow one cannot keep a host from starting for long.
    REGISTRY_LOAD_MS: u64 = 120_000;
    /// Packages that `registry serve` lists at its start: more than anybody reads.
    REGISTRY_LISTED_MAX: usize = 1_000;
    /// What a registry says is wrong with a package: a sentence or two.
    REGISTRY_REASON_BYTES_MAX: usize = 512;
    /// Requests that `registry serve` answers at the same time: each may hold a component in memory.
    REGISTRY_REQUESTS_MAX: usize = 8;
    /// Tools of one version of the registry: as many as a tools folder has files.
    RELEASE_TOOLS_MAX: usize = 1_000;
    /// The definitions of one version of the registry, as JSON.
    RELEASE_BYTES_MAX: usize = 33_554_432;
    /// Time PostgreSQL has for one transaction: seeding sends every component of a version.
    RELEASE_STORE_MS: u64 = 60_000;
    /// A pinned version of the registry that cannot be served is looked at this often: reading it may take long.
    RELEASE_RETRY_MS: u64 = 10_000;
    /// Time for everything that one `clawhost pull` or `push` asks: a component of the largest size over a slow line.
    DISTRIBUTION_MS: u64 = 600_000;
    /// Servers that one request of a pull is sent on to: registries keep blobs one hop away.
    REDIRECTS_MAX: usize = 5;
    /// The manifest of an OCI artifact: a component's has under a kilobyte.
    OCI_MANIFEST_BYTES_MAX: u64 = 1_048_576;
    /// The answer of a server that gives tokens for an OCI registry.
    OCI_TOKEN_BYTES_MAX: u64 = 65_536;
    /// The signature of a component: four lines.
    SIGNATURE_BYTES_MAX: u64 = 4_096;
    /// Documents one run may load.
    DOCUMENTS_MAX: usize = 1_000;
    /// Files the drop-in directory may hold.
    DROP_IN_FILES_MAX: usize = 1_000;
    /// Quiet time after the last change of the drop-in directory before it is read again.
    DROP_IN_DEBOUNCE_MS: u64 = 100;
    /// The drop-in directory is also read this often, where the system drops notifications.
    DROP_IN_RESCAN_MS: u64 = 500;
    /// The kernel's list of mounts: some 200 bytes each, and a container host has thousands.
    MOUNTS_BYTES_MAX: u64 = 16_777_216;
    /// Time after which a host has heeded what others wrote to its store: short for a person who waits.
    STORE_POLL_MS: u64 = 500;
    /// Time to connect to an upstream, of a request's own limits.
    EGRESS_CONNECT_MS: u64 = 10_000;
    /// Time to the first byte of an upstream's answer, and between two bytes of it.
    EGRESS_READ_MS: u64 = 30_000;
    /// Bytes of one upstream answer handed to a guest, and of the body of one request that it sends.
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
    /// Origins that the record of one call names as reached.
    EGRESS_ORIGINS_MAX: usize = 32;
    /// Directory entries one call may list, over all listings: a directory of a million is listed in order, whichever page of it is asked for.
    LIST_ENTRIES_MAX: u64 = 2_000_000;
    /// Bytes one call may write to granted directories.
    WRITE_BYTES_MAX: u64 = 1_073_741_824;
    /// Files and directories one call may create.
    CREATE_ENTRIES_MAX: u64 = 10_000;
    /// A path given by a guest.
    PATH_BYTES_MAX: usize = 4_096;
    /// Symbolic links that one path of a guest may meet: what Linux allows.
    PATH_LINKS_MAX: u32 = 40;
    /// Directories below its start that one path of a guest may hold, each an open handle while it is walked. A deeper tree is reached from a descriptor further down.
    PATH_FOLDERS_MAX: usize = 128;
    /// Components that one path of a guest may visit, links included: ten times the longest sensible path.
    PATH_STEPS_MAX: u32 = 2_048;
    /// Paths in the arguments of one call that a policy looks at; with more, one of them counts as leading nowhere.
    POLICY_PATHS_MAX: usize = 256;
    /// A shell command line.
    SCRIPT_BYTES_MAX: usize = 65_536;
    /// `blocked_patterns` of a profile's shell, and as many `blocked_commands`: checking them compiles them.
    SHELL_PATTERNS_MAX: usize = 100;
    /// One compiled `blocked_patterns` or `blocked_commands` of a profile's shell: matching costs by its size.
    SHELL_PATTERN_BYTES_MAX: usize = 65_536;
    /// All compiled `blocked_patterns` and `blocked_commands` of a profile's shell: with as many, a large command line takes seconds to search, beside the threads that serve.
    SHELL_PATTERNS_BYTES_MAX: u64 = 1_048_576;
    /// Commands of one line under `restricted`: each is looked for among the system's programs.
    SHELL_COMMANDS_MAX: usize = 256;
    /// Arguments of one program that is started without a shell, in bytes: what Linux takes everywhere.
    PROCESS_ARGUMENTS_BYTES_MAX: usize = 131_072;
    /// Programs that one agent may run without a shell (`spawn`) at the same time.
    SPAWNS_MAX: usize = 5;
    /// Native processes of one call where the profile does not say.
    PROCESSES_MAX: u32 = 32;
    /// The most native processes that a profile may allow a call at once; more is no sandbox.
    PROCESSES_CEILING_MAX: u64 = 4_096;
    /// A native process's output per stream where the profile does not say.
    PROCESS_OUTPUT_BYTES_MAX: u64 = 1_048_576;
    /// A native process's address space where the profile does not state less.
    PROCESS_MEMORY_MB: u64 = 512;
    /// One file a native process may write.
    PROCESS_FILE_BYTES_MAX: u64 = 1_073_741_824;
    /// One line of the audit log; longer arguments are recorded by digest only.
    AUDIT_RECORD_BYTES_MAX: usize = 65_536;
    /// Records that wait for one copy of the log; more are missing there, and the chain says how many.
    AUDIT_COPY_QUEUE_MAX: usize = 4_096;
    /// Records of one batch that goes to a copy.
    AUDIT_COPY_BATCH_MAX: usize = 64;
    /// Time one batch may take to reach a copy.
    AUDIT_COPY_MS: u64 = 10_000;
    /// Times a batch is tried again; then its records are missing in the copy.
    AUDIT_COPY_RETRIES_MAX: u32 = 5;
    /// Time before a failed batch is tried again; it doubles with each try.
    AUDIT_COPY_RETRY_MS: u64 = 500;
    /// Records kept in the store's copy of the log; the oldest go first.
    AUDIT_COPY_ROWS_MAX: i64 = 1_000_000;
    /// Records that one signature stands for: a path of ten hashes leads to it.
    AUDIT_BATCH_RECORDS_MAX: usize = 1_024;
    /// Time in which records gather for one signature: what a killed host leaves unsigned.
    AUDIT_BATCH_MS: u64 = 50;
    /// Time that the records of a chain's end may span which no signature stands for and a later chain names: of a
    /// killed host they do not span more, on a machine with too much to do either.
    AUDIT_UNSIGNED_MS: u64 = 1_000;
    /// Ends of earlier chains that one names beside the newest's; the next names the rest, and a first record holds
    /// so many.
    AUDIT_ENDS_NAMED_MAX: usize = 400;
    /// What one recording of a call holds: it is in memory until the call ends.
    RECORDING_BYTES_MAX: usize = 8_388_608;
    /// Recordings that are kept beside one log; the oldest go first.
    RECORDINGS_MAX: usize = 200;
    /// Arguments or results that are screened on a thread that serves; longer ones beside it.
    SCREENED_AT_ONCE_BYTES_MAX: usize = 262_144;
    /// Findings of one kind that a screen counts; more tell nobody more, and cost time to judge.
    SCREEN_FINDINGS_MAX: usize = 1_000;
    /// Different findings in a call's progress and its client's answers that its record has: there may be ever more of them.
    MEANWHILE_FINDINGS_MAX: usize = 64;
    /// Work that waits for the embedded store; more waits in its caller.
    DATABASE_JOBS_MAX: usize = 1_024;
    /// One query of a memory store: it is broken off after this, so that it holds up no other.
    MEMORY_QUERY_MS: u64 = 1_000;
    /// Queries of one agent that a host searches at the same time; more wait for these.
    MEMORY_QUERIES_PER_AGENT_MAX: usize = 2;
    /// Time one host waits for another that writes to the same store.
    DATABASE_WAIT_MS: u64 = 5_000;
    /// One piece of work of the embedded store, waiting included: all others wait for it. The longest ones take a second.
    DATABASE_JOB_MS: u64 = 15_000;
    /// Questions to a person that wait at once, of the whole host: each holds a call.
    APPROVALS_PENDING_MAX: usize = 1_000;
    /// Questions of one principal that wait at once, so that one cannot bury those of others.
    APPROVALS_PENDING_PER_PRINCIPAL_MAX: usize = 256;
    /// Time a person has to answer where the rule does not say.
    APPROVAL_TIMEOUT_MS: u64 = 300_000;
    /// Time a person has to answer, whatever the rule says: one day.
    APPROVAL_TIMEOUT_CEILING_MS: u64 = 86_400_000;
    /// Bytes of a call's arguments that a person is shown; more are cut, and said to be.
    APPROVAL_SHOWN_BYTES_MAX: usize = 16_384;
    /// Likewise, where all questions are listed: what a screen holds several of.
    APPROVAL_LISTED_BYTES_MAX: usize = 1_024;
    /// The least that each argument is shown of; where there are too many for that, some are
    /// counted only.
    APPROVAL_ARGUMENT_BYTES_MIN: usize = 32;
    /// A reason that a person gives; the caller reads it.
    APPROVAL_REASON_BYTES_MAX: usize = 1_024;
    /// Calls parked for a client of the stateless revision that has to come back for the answer.
    APPROVALS_PARKED_MAX: usize = 1_000;
    /// Time the answer of a parked call is kept for its client.
    PARKED_KEPT_MS: u64 = 300_000;
    /// Time a client's request is held while its call waits for a person: less than the minute
    /// after which many clients give up, long enough that ten turns outlast the person's time.
    APPROVAL_HOLD_MS: u64 = 45_000;
    /// Time between two reports to a client that its call still waits for a person.
    APPROVAL_REPORT_INTERVAL_MS: u64 = 15_000;
    /// Bytes of arguments in a question that an agent's own client shows to its user; who calls with more waits for
    /// the operator.
    ELICITED_BYTES_MAX: usize = 2_048;
    /// Leases that are kept; more are refused, as nobody looks through so many.
    LEASES_MAX: usize = 1_000;
    /// Time a lease may last: thirty days.
    LEASE_CEILING_MS: u64 = 2_592_000_000;
    /// Arguments one lease may name.
    LEASE_PATTERNS_MAX: usize = 32;
    /// An argument's name and its pattern in a lease.
    LEASE_PATTERN_BYTES_MAX: usize = 4_096;
    /// Command lines that may talk to one running host at once.
    CONTROL_CONNECTIONS_MAX: usize = 16;
    /// One message of the command line to a running host.
    CONTROL_MESSAGE_BYTES_MAX: usize = 65_536;
    /// One answer of a running host to the command line: all questions listed, or one in full.
    CONTROL_ANSWER_BYTES_MAX: usize = 16_777_216;
    /// Time a running host has to answer the command line, which then goes on without it.
    CONTROL_ANSWER_MS: u64 = 3_000;
    /// Time the command line may say nothing before a running host lets go of it.
    CONTROL_IDLE_MS: u64 = 10_000;
    /// Consoles that may wait for news at once, and beside them questions of consoles that may be open at once.
    CONSOLE_REQUESTS_MAX: usize = 16;
    /// Time a console waits for news before it is answered all the same: below what proxies cut off.
    CONSOLE_WAIT_MS: u64 = 25_000;
    /// Time between two answers about calls to one console: as fast as anybody reads.
    CONSOLE_NEWS_INTERVAL_MS: u64 = 200;
    /// Questions that a console lists, of each caller in turn; the others are counted, and come as these are answered.
    CONSOLE_PENDING_MAX: usize = 50;
    /// Calls on one page of a console's search.
    CONSOLE_PAGE_MAX: usize = 50;
    /// The end of the log that a console shows first: some hundred records.
    AUDIT_TAIL_BYTES_MAX: u64 = 262_144;
    /// What a search of the log holds at once; the longest record fits many times.
    AUDIT_WINDOW_BYTES_MAX: u64 = 1_048_576;
    /// What one search of the log reads, which takes less than a second; then it says where it goes on.
    AUDIT_SEARCH_BYTES_MAX: u64 = 67_108_864;
    /// Rounds in which a profile is learnt, each of which grants one thing more; a tool that needs so many needs a
    /// person who thinks.
    LEARN_ROUNDS_MAX: usize = 8;
    /// Events that wait for one exporter of telemetry; more are dropped and counted, as nothing waits for an exporter.
    TELEMETRY_QUEUE_MAX: usize = 2_048;
    /// Events of one batch where the manifest does not say.
    TELEMETRY_BATCH_MAX: usize = 512;
    /// Time an event waits for its batch to fill where the manifest does not say.
    TELEMETRY_FLUSH_MS: u64 = 5_000;
    /// Time one exporter has for one batch.
    TELEMETRY_EXPORT_MS: u64 = 10_000;
    /// Times a batch is tried again; then its events are dropped and counted.
    TELEMETRY_RETRIES_MAX: u32 = 3;
    /// Time before a failed batch is tried again; it doubles with each try.
    TELEMETRY_RETRY_MS: u64 = 1_000;
    /// The longest a collector may ask to be left alone for (`Retry-After`).
    TELEMETRY_RETRY_AFTER_MS: u64 = 30_000;
    /// Arguments or result of one call in an event, as JSON; a longer one is replaced by its size.
    TELEMETRY_VALUE_BYTES_MAX: usize = 16_384;
    /// Stages of one call that telemetry shows: those of all attempts of a plan with many.
    CALL_STAGES_MAX: usize = 64;
    /// Scrapes of the measurements that may be answered at once; who else connects waits.
    METRICS_REQUESTS_MAX: usize = 4;
    /// Time who reads measurements, or from a registry, has to send the header: meanwhile it holds one of few places.
    ONE_HEADER_READ_MS: u64 = 2_000;
    /// Time one scrape may take from connecting to the last byte.
    METRICS_REQUEST_MS: u64 = 10_000;
    /// A telemetry file; at this size it becomes `<name>.1`, in place of the one before.
    TELEMETRY_FILE_BYTES_MAX: u64 = 67_108_864;
    /// Rows of a telemetry database; the oldest go first.
    TELEMETRY_ROWS_MAX: i64 = 1_000_000;
    /// One answer of whoever gives tokens for an MCP server.
    OAUTH_ANSWER_BYTES_MAX: u64 = 65_536;
    /// What a browser may bring back from a login, a line: several times the longest code.
    OAUTH_CALLBACK_BYTES_MAX: usize = 16_384;
    /// Time one browser's request may take: what connects ahead of need says nothing for long.
    OAUTH_CALLBACK_MS: u64 = 10_000;
    /// Requests that are read at the same time while somebody logs in.
    OAUTH_CALLBACKS_MAX: usize = 16;
    /// How long before its end a token is used no more, at most half of its time: clocks differ, and calls take time.
    OAUTH_EARLY_MS: i64 = 30_000;
    /// Time a person has to log in.
    OAUTH_LOGIN_MS: u64 = 300_000;
    /// Time all requests for one token may take.
    OAUTH_MS: u64 = 30_000;
    /// Time between a failure to get a token and the next attempt, however many calls wait for one.
    OAUTH_PAUSE_MS: u64 = 5_000;
    /// Time one batch has to reach a collector or webhook.
    POST_MS: u64 = 10_000;
    /// An answer of a collector or webhook: nothing long is worth reading there.
    POST_ANSWER_BYTES_MAX: u64 = 65_536;
    /// Tasks of one swarm that wait or run at the same time; more are refused.
    SWARM_TASKS_MAX: usize = 1_000;
    /// Tasks of one swarm that run at the same time where the manifest does not say; fewer than a member's events, so that no task is lost on its way.
    SWARM_PARALLEL_MAX: usize = 64;
    /// Time between two looks at which tasks are out of time.
    SWARM_LOOK_MS: u64 = 500;
    /// Events that wait for one member of a swarm; a slow one loses the oldest, and is told how many.
    SWARM_EVENTS_MAX: usize = 256;
    /// Description, input, result or message of a swarm, as JSON.
    SWARM_VALUE_BYTES_MAX: usize = 262_144;
    /// Agents of one swarm, counting each of a role's.
    SWARM_AGENTS_MAX: usize = 1_000;
    /// A task's or an agent's name in a swarm.
    SWARM_NAME_BYTES_MAX: usize = 256;
    /// Principals whose calls of the last minute are counted; more at once are refused.
    CALL_RATES_PRINCIPALS_MAX: usize = 1_024;
    /// Tokens of a completion that names no length and that no limit makes shorter: what every model can give.
    COMPLETION_TOKENS_MAX: u64 = 4_096;
    /// Tokens of a prompt whose request refers to what stands elsewhere, where no `max_context_window` says
    /// otherwise: as many as large models look at. No report of such a prompt is believed beyond it.
    PROMPT_TOKENS_MAX: u64 = 2_000_000;
    /// Completions that one request may ask for: `n`, as OpenAI has it.
    COMPLETIONS_MAX: u64 = 128;
    /// A chat request for a provider, as JSON: as long as the arguments of a call.
    PROVIDER_REQUEST_BYTES_MAX: usize = 4_194_304;
    /// A provider's answer: a completion of 100,000 tokens is under a tenth of it.
    PROVIDER_ANSWER_BYTES_MAX: u64 = 4_194_304;
    /// Time a provider has to begin its answer, which it does only when the completion is written.
    PROVIDER_ANSWER_MS: u64 = 120_000;
    /// Rounds of tool calls in one turn through the LLM proxy (the managed-tools table).
    PROXY_ROUNDS_MAX: u32 = 8;
    /// The most rounds that a turn may be given: more are no turn of a conversation.
    PROXY_ROUNDS_CEILING_MAX: u64 = 100;
    /// Rounds of tool calls, the client's own among them, since the user spoke last: the design's `max_tool_iterations`.
    PROXY_ITERATIONS_MAX: u32 = 20;
    /// The most of these that may be allowed: who has none that watches is stopped some time.
    PROXY_ITERATIONS_CEILING_MAX: u64 = 1_000;
    /// One tool call of such a turn (the managed-tools table).
    PROXY_TOOL_MS: u64 = 30_000;
    /// Such a turn as a whole (the managed-tools table).
    PROXY_TOTAL_MS: u64 = 120_000;
    /// The part of that time after which the model is asked for its last words.
    PROXY_SOFT_DEADLINE_PERMILLE: u64 = 900;
    /// One tool's result in such a turn, as JSON (the managed-tools table).
    PROXY_RESULT_BYTES_MAX: usize = 16_384;
    /// The least that such a result may be given: less holds no envelope.
    PROXY_RESULT_BYTES_MIN: u64 = 256;
    /// The pieces that such a window is counted in, and the shortest one: a minute.
    BUDGET_PIECE_MS: u64 = 60_000;
    /// The longest window of an agent's budget: a month. What was spent is kept so long, by the minute.
    BUDGET_WINDOW_MS_MAX: u64 = 2_678_400_000;
    /// The name of a pod's service: it is a part of a host's name.
    POD_SERVICE_NAME_BYTES_MAX: usize = 63;
    /// The same call so often in a row, and the model gets no more tools in that turn.
    PROXY_REPEATS_STREAK_MAX: u32 = 3;
    /// Calls of one turn that were made before in it, in any order: two models' worth of loops.
    PROXY_REPEATS_MAX: u32 = 8;
    /// Calls of one answer: more are no plan of a model, and each has a result in every later request.
    PROXY_ANSWER_CALLS_MAX: usize = 128;
    /// Tools that a model is told of when it calls one that there is not: it was shown all of them.
    PROXY_NEAREST_MAX: usize = 5;
    /// A value of an answer that is said again with each event of its stream: an id, a date, a model's name.
    PROXY_EVENT_VALUE_BYTES_MAX: usize = 256;
    /// One request for a completion that says its length beforehand, with pictures and documents in it: what providers take.
    PROXY_REQUEST_BYTES_MAX: usize = 33_554_432;
    /// Those longer than any other message may be that one agent may have under way: each takes some five times its length
    /// of memory, as it came, as it was read and as it is sent.
    PROXY_LARGE_REQUESTS_MAX: usize = 4;
    /// The most that one answer without tools of ours may take through the proxy: what the clients' own libraries wait.
    PROXY_PASS_MS: u64 = 600_000;
    /// An event of a stream that passes, which waits for its end: a longer one passes in parts.
    PROXY_EVENT_BYTES_MAX: usize = 1_048_576;
    /// Time between two comments that keep a runner's connection while a turn goes on (the managed-tools table).
    PROXY_KEEPALIVE_MS: u64 = 250;
    /// Turns of one conversation whose hidden messages are kept (the managed-tools table).
    PROXY_TURNS_KEPT_MAX: usize = 8;
    /// Hidden messages of one turn that are kept, as JSON: a full turn of eight rounds has half of it. Of a longer one results are shortened.
    PROXY_TURN_BYTES_MAX: usize = 262_144;
    /// Hidden messages of all conversations of one agent, as JSON; the oldest make room.
    PROXY_TURNS_BYTES_MAX: usize = 16_777_216;
    /// What providers made for one agent and keep, of which it is known who does: answers, each with a few items,
    /// and what those name. Of what was not used for longest it is forgotten.
    PROXY_NAMES_KEPT_MAX: usize = 10_000;
    /// What others say of a request's trace (`tracestate`): what W3C has everybody pass on at least.
    PROXY_TRACESTATE_BYTES_MAX: usize = 512;
    /// The name of one of these: OpenAI's have 55.
    PROXY_NAME_BYTES_MAX: usize = 256;
    /// The history of one agent's turns; a full one is put aside, and replaces the one before.
    PROXY_HISTORY_BYTES_MAX: u64 = 268_435_456;
    /// What a line of the history holds of one request or answer.
    PROXY_HISTORY_TEXT_BYTES_MAX: usize = 1_048_576;
    /// One line of the history, to whoever reads it: several such parts.
    PROXY_HISTORY_LINE_BYTES_MAX: usize = 8_388_608;
    /// The wait before something that failed for a passing reason is tried again (CKP default); it grows from there.
    RETRY_DELAY_MS: u64 = 1_000;
    /// The longest wait between two attempts (CKP default).
    RETRY_DELAY_CEILING_MS: u64 = 30_000;
    /// Time in which a request that is sent again is surely answered again (CKP: five minutes or more).
    REPLAY_WINDOW_MS: i64 = 300_000;
    /// Time an answer is kept where there is room: twice what is promised.
    REPLAY_KEPT_MS: i64 = 600_000;
    /// Time a request without a known outcome is refused rather than run again: longer than any call runs.
    REPLAY_UNKNOWN_KEPT_MS: i64 = 86_400_000;
    /// Requests of one principal that are kept: 333 a second over the promised time.
    REPLAY_ROWS_MAX: i64 = 100_000;
    /// Bytes of one principal's kept answers.
    REPLAY_BYTES_MAX: i64 = 268_435_456;
    /// One kept answer: a reply has at most 64 KiB, and the ids of a memory's entries about as much.
    REPLAY_ANSWER_BYTES_MAX: usize = 1_048_576;
    /// A caller's own name of a request: CKP's are UUIDs of 36.
    REPLAY_ID_BYTES_MAX: usize = 256;
    /// Stores one Memory may declare.
    MEMORY_STORES_MAX: usize = 100;
    /// Bytes of one part of a memory store where the document does not say.
    MEMORY_PART_MB: u64 = 256;
    /// The most bytes a document may give one part of a store: what one embedded file serves well.
    MEMORY_SIZE_CEILING_MB: u64 = 65_536;
    /// Entries one request may store: one transaction, in which other requests wait.
    MEMORY_ENTRIES_PER_CALL: usize = 1_000;
    /// The content of one entry, as serialised JSON.
    MEMORY_CONTENT_BYTES_MAX: usize = 1_048_576;
    /// The metadata of one entry, as serialised JSON.
    MEMORY_METADATA_BYTES_MAX: usize = 65_536;
    /// The key of one entry.
    MEMORY_KEY_BYTES_MAX: usize = 1_024;
    /// What an entry counts beside its own bytes: a row, its index and its words; so that empty entries are bounded too.
    MEMORY_ENTRY_COST_BYTES: u64 = 256;
    /// Entries of an answer where neither query nor store say.
    MEMORY_TOP_K_PER_CALL: u32 = 10;
    /// Entries of one answer, whatever the query says.
    MEMORY_TOP_K_MAX: u32 = 1_000;
    /// Bytes of one answer's entries: a message.
    MEMORY_ANSWER_BYTES_MAX: usize = 4_194_304;
    /// The text of one semantic query.
    MEMORY_QUERY_BYTES_MAX: usize = 65_536;
    /// Different words of a semantic query that are looked for, the first ones: each costs a look-up.
    MEMORY_QUERY_WORDS_MAX: usize = 128;
    /// Entries that compacting leaves where the retention names no number.
    MEMORY_WINDOW_ENTRIES_MAX: u64 = 1_000;
    /// Numbers of one vector of a memory store: above every model that is known.
    MEMORY_DIMENSIONS_MAX: u32 = 8_192;
    /// Vectors that one query is compared with, those of the newest entries: 10,922 of 1,536 numbers, read in about 50 ms.
    MEMORY_VECTORS_BYTES_MAX: usize = 67_108_864;
    /// What of one text becomes a vector, its beginning: models read 8,192 tokens, and a token has a byte or more.
    MEMORY_EMBEDDED_BYTES_MAX: usize = 8_192;
    /// Texts of one request for vectors: the longest vectors of all fit one answer of a provider.
    MEMORY_EMBEDDED_TEXTS_MAX: u32 = 16;
    /// Entries that get their vectors while one query waits; the rest with the queries after it.
    MEMORY_EMBEDDED_PER_QUERY_MAX: u32 = 512;
    /// Time in which a query and the entries before it become vectors; then words alone are compared.
    MEMORY_EMBED_MS: u64 = 5_000;
    /// Entries of one agent's keys and values: a notebook, not a database.
    KEYS_PER_AGENT_MAX: u64 = 10_000;
    /// One key: a path of a deep folder fits, a document does not.
    KEY_BYTES_MAX: usize = 512;
    /// One value: half of a reply, which holds it twice. `key_value_store` takes none that a reply cannot return.
    KEY_VALUE_BYTES_MAX: usize = 32_768;
    /// All keys and values of one agent, as they are read and written by one thread.
    KEYS_BYTES_MAX: u64 = 16_777_216;
    /// Keys of one page of a listing.
    KEYS_LISTED_MAX: u32 = 100;
    /// The words of one search for tools: a sentence or two.
    FIND_QUERY_BYTES_MAX: usize = 1_024;
    /// Bytes of one text of a tool that such a search looks at: what a tool is for is said first.
    FIND_TEXT_BYTES_MAX: usize = 2_048;
    /// Tools of one answer of it, each with its whole definition, where the caller does not say.
    FIND_TOOLS_PER_CALL: usize = 5;
    /// Tools of one such answer, whatever the caller says.
    FIND_TOOLS_MAX: usize = 20;
    /// Time a result that was cut is kept to be read on.
    RESULT_KEPT_MS: u64 = 3_600_000;
    /// Kept results of one agent; the oldest makes room.
    RESULTS_PER_AGENT_MAX: usize = 16;
    /// Bytes of all kept results of one agent: one of the largest, and a few others.
    RESULTS_BYTES_MAX: usize = 16_777_216;
    /// A page of a kept result, as JSON text: it fits into a reply.
    RESULT_PAGE_BYTES_MAX: usize = 32_768;
    /// Days for which the store knows what completions cost: a year, and the day that makes it whole.
    COST_DAYS_MAX: u32 = 366;
    /// Entries of one look at these costs, the dearest first: far more than agents times tools times providers.
    COSTS_LISTED_MAX: u32 = 1_000;
    /// Channels one runtime file may declare: each has a worker.
    CHANNELS_MAX: usize = 64;
    /// The text of one message to a channel.
    CHANNEL_MESSAGE_BYTES_MAX: usize = 16_384;
    /// The conversation of one message to a channel.
    CHANNEL_CHAT_ID_BYTES_MAX: usize = 256;
    /// Messages one call may send: a loop of them is a flood.
    CHANNEL_MESSAGES_PER_CALL_MAX: u32 = 16;
    /// Messages that wait for one channel; more are refused.
    CHANNEL_QUEUE_MAX: usize = 256;
    /// Time one message may take to reach its channel.
    CHANNEL_SEND_MS: u64 = 10_000;
    /// Times a message is tried again; then it is lost, and the log says so.
    CHANNEL_RETRIES_MAX: u32 = 5;
    /// Time before a message is tried again; it doubles with each try.
    CHANNEL_RETRY_MS: u64 = 500;
    /// Files of their own that stores have open at once; each is a thread.
    MEMORY_FILES_MAX: usize = 64;
    /// The longest a client of the Claw Kernel Protocol may let a shutdown wait for its calls.
    SHUTDOWN_TIMEOUT_CEILING_MS: u64 = 3_600_000;
    /// Time an approval waits for the question of a call that was sent just before it.
    APPROVAL_EARLY_MS: u64 = 2_000;
    /// Notifications of one session that wait to be taken; reports and heartbeats beyond are dropped.
    CLAW_NOTICES_MAX: usize = 64;
    /// A manifest that a client sends with its session; what is made of it takes many times as much.
    SESSION_MANIFEST_BYTES_MAX: usize = 262_144;
    /// Entries of all lists of such a manifest: each schema in it takes milliseconds to compile.
    SESSION_ENTRIES_MAX: usize = 100;
    /// Sessions of the Claw Kernel Protocol one agent may hold over HTTP.
    CLAW_SESSIONS_MAX: usize = 64;
    /// Time after which a session of the Claw Kernel Protocol over HTTP ends that nobody uses.
    CLAW_SESSION_IDLE_MS: u64 = 1_800_000;
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
    /// Time telemetry and copies of the audit log have to be handed over when the host stops.
    FLUSH_MS: u64 = 2_000;
    /// Time running calls have to end when the host is asked to stop.
    SHUTDOWN_GRACE_MS: u64 = 5_000;
    /// One secret's value: several times the largest key file.
    SECRET_BYTES_MAX: usize = 8_192;
    /// One value the host itself puts into requests: as many bytes of an answer may have to wait
    /// until they are known to be no secret.
    SECRET_BOUNDARY_BYTES_MAX: usize = 4_096;
    /// All values a host knows at once: each is searched for in a dozen spellings, at 500 bytes of memory a byte.
    SECRETS_BYTES_MAX: usize = 65_536;
    /// A secret's name; it is shown in the place of the value.
    SECRET_NAME_BYTES_MAX: usize = 128;
    /// From this length on a secret is found wherever it stands; shorter ones, as whole words only.
    REDACT_VALUE_BYTES: usize = 8;
    /// From this length on a secret is looked for at all: shorter ones are in every text.
    REDACT_WORD_BYTES: usize = 4;
    /// Layers of escapes that are undone in search of a secret: JSON in JSON in a URL.
    REDACT_ROUNDS_MAX: usize = 3;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_positive_and_carries_its_unit_and_reason() {
        const UNITS: [&str; 9] =
            ["_MS", "_US", "_MB", "_MAX", "_MIN", "_INTERVAL", "_CALL", "_BYTES", "_PERMILLE"];
        for limit in TABLE {
            assert!(limit.value > 0, "{} is zero", limit.name);
            assert!(limit.reason.len() > 20, "{} has no reason", limit.name);
            // It is printed as it is.
            assert!(!limit.reason.contains("[`"), "{} has a link", limit.name);
            assert!(UNITS.iter().any(|unit| limit.name.ends_with(unit)), "{}", limit.name);
        }
    }
}
