//! The record, recordings, secrets and what else is searched for, and the time that the database may take.

limits! {
    RECORD;
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
    /// Time telemetry and copies of the audit log have to be handed over when the host stops.
    FLUSH_MS: u64 = 2_000;
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
}
