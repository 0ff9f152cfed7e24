//! Messages, connections and sessions, and programs that are wrapped.

use super::bridge::BRIDGE_REQUESTS_MAX;

limits! {
    CONNECTIONS;
    /// Nesting of JSON that is read from a caller, a guest or a file.
    JSON_DEPTH_MAX: usize = 128;
    /// Parts of JSON that is read, of 64 bytes of memory each: every value is one, and an object with entries ten more. The longest message may hold nothing but numbers.
    JSON_NODES_MAX: usize = 2_097_152;
    /// One line on stdio, and one HTTP request body; of those for completions, some are longer.
    MESSAGE_BYTES_MAX: usize = 4_194_304;
    /// Requests of one connection that may run at the same time.
    CONNECTION_REQUESTS_MAX: usize = 256;
    /// The id of one request, where it is text: it comes back with the answer, and those of cancelled requests are remembered.
    REQUEST_ID_BYTES_MAX: usize = 1_024;
    /// What a client says of itself when it begins a session over MCP: it is kept as long as that, and an agent has many.
    INITIALIZE_BYTES_MAX: usize = 65_536;
    /// Bytes of all requests that run on one connection, and of the long ones of one agent over HTTP: parsed JSON takes many times its text.
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
}
