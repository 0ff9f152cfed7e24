//! What a call reaches: the network, files and programs.

limits! {
    REACH;
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
}
