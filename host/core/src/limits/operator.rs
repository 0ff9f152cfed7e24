//! What the operator is asked and shown: approvals, leases, the console, telemetry.

limits! {
    OPERATOR;
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
    /// Bytes of the long arguments of all of these, which are kept as JSON and take many times as much: where there is no
    /// room the request stays open, and counts among those of its agent.
    APPROVALS_PARKED_BYTES_MAX: usize = 33_554_432;
    /// Arguments that are short, and take none of that: those of all have half as much together.
    APPROVALS_PARKED_SHORT_BYTES_MAX: usize = 16_384;
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
}
