//! What agents remember, find, keep, spend and send, and their sessions.

limits! {
    AGENTS;
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
}
