//! What is asked of others, and asked again: issuers, swarms, providers, completions with tools; and answers that are
//! kept for a request that comes again.

limits! {
    UPSTREAM;
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
    /// Likewise all that is said in them.
    SWARM_TASKS_BYTES_MAX: usize = 33_554_432;
    /// Of both, what agents of the host that are none of the swarm's have together: the rest is left for its own.
    SWARM_OUTSIDE_PERMILLE: usize = 250;
    /// Tasks of one swarm that run at the same time where the manifest does not say; fewer than a member's events, so that no task is lost on its way.
    SWARM_PARALLEL_MAX: usize = 64;
    /// Time between two looks at which tasks are out of time.
    SWARM_LOOK_MS: u64 = 500;
    /// Events that wait for one member of a swarm; a slow one loses the oldest, and is told how many.
    SWARM_EVENTS_MAX: usize = 256;
    /// Likewise the messages and reports among them.
    SWARM_EVENTS_BYTES_MAX: usize = 8_388_608;
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
    /// otherwise: as many as large models look at. No report of such a prompt, nor of an answer whose length nothing
    /// bounds, is believed beyond it.
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
    /// An event of a stream that passes, of which is read what was used and what was made: as long as an answer in one
    /// piece, as the last event of a response says all of it again, pictures included.
    PROXY_EVENT_READ_BYTES_MAX: usize = 4_194_304;
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
    /// Time a request without a known outcome is refused rather than run again: longer than any call waits for a person, and then runs.
    REPLAY_UNKNOWN_KEPT_MS: i64 = 172_800_000;
    /// Requests of one principal that are kept: 333 a second over the promised time.
    REPLAY_ROWS_MAX: i64 = 100_000;
    /// Bytes of one principal's kept answers.
    REPLAY_BYTES_MAX: i64 = 268_435_456;
    /// One kept answer: a reply has at most 64 KiB, and the ids of a memory's entries about as much.
    REPLAY_ANSWER_BYTES_MAX: usize = 1_048_576;
    /// A caller's own name of a request: CKP's are UUIDs of 36.
    REPLAY_ID_BYTES_MAX: usize = 256;
}
