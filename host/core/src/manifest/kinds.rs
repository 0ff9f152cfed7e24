//! What documents may hold: one table for the envelope and all kinds.
//!
//! It reads like the protocol's own pages: `!` marks a key that has to be there. Everything is
//! closed but what `..` ends. What the tables cannot say is in each kind's own file, and keys that
//! depend on each other are in `needs`.

use super::primitive::PROTOCOL_VERSION;
use super::shape::{
    ANY, COUNT, DURATION, FLAG, NAME, NUMBER, OBJECT, PATH, POSITIVE, SECRET, SHARE, STRING,
    STRINGS, Shape, TEXT, URL, opt, req, shape, up_to,
};
use crate::limits::{
    GUEST_MEMORY_CEILING_MB, MEMORY_DIMENSIONS_MAX, MEMORY_SIZE_CEILING_MB, MEMORY_TOP_K_MAX,
    PROCESSES_CEILING_MAX, RESOURCES_MAX, TOOL_OUTPUT_BYTES_MAX, TOOL_TIMEOUT_CEILING_MS,
};
use crate::uri::Kind;

/// Returns the closed table of a kind's `spec`.
pub(crate) const fn spec_shape(kind: Kind) -> &'static Shape {
    match kind {
        Kind::Channel => &CHANNEL,
        Kind::Identity => &IDENTITY,
        Kind::Memory => &MEMORY,
        Kind::Policy => &POLICY,
        Kind::Provider => &PROVIDER,
        Kind::Sandbox => &SANDBOX,
        Kind::Skill => &SKILL,
        Kind::Swarm => &SWARM,
        Kind::Telemetry => &TELEMETRY,
        Kind::Tool => &TOOL,
        Kind::WorldModel => &WORLD_MODEL,
    }
}

/// Returns the closed table of the `spec` of what a document calls its `kind`.
pub(crate) fn document_shape(kind: &str) -> Option<&'static Shape> {
    if kind == "Claw" { Some(&CLAW) } else { Kind::from_document(kind).map(spec_shape) }
}

const LABELS: Shape = Shape::Dict(&STRING);
/// The one annotation that this host heeds.
const HEEDED: Shape = shape!({ heartbeat_interval_ms: COUNT, .. });
const BACKOFF: Shape = shape!(["exponential" | "linear" | "constant"]);

shape! { pub(crate) ENVELOPE = {
    claw!: (Shape::Served {
        now: &[PROTOCOL_VERSION],
        later: &[],
        help: "this host reads documents of version 0.3.0: write `claw: \"0.3.0\"`, and what that version does not have is reported",
    }),
    kind!: ["Claw" | "Channel" | "Identity" | "Memory" | "Policy" | "Provider" | "Sandbox" | "Skill"
        | "Swarm" | "Telemetry" | "Tool" | "WorldModel"],
    metadata!: { name!: NAME, version: TEXT, labels: LABELS, annotations: HEEDED, .. },
    spec!: (Shape::Spec),
}}

shape! { pub(crate) INLINE = {
    inline!: OBJECT,
    metadata: ANY,
}}

shape! { pub(crate) INLINE_METADATA = {
    name: NAME, version: TEXT, labels: LABELS, annotations: OBJECT, ..
}}

shape! { pub(crate) SHORT_TOOL = {
    name!: NAME,
    sandbox: (Shape::Ref(Kind::Sandbox)),
    policy: (Shape::Ref(Kind::Policy)),
} }

// The forms of entries are checked where they are resolved.
shape! { pub(crate) CLAW = {
    identity!: (Shape::Entry(Kind::Identity)),
    providers!: [+ (Shape::Entry(Kind::Provider))],
    channels: [(Shape::Entry(Kind::Channel))],
    tools: [(Shape::Entry(Kind::Tool))],
    skills: [(Shape::Entry(Kind::Skill))],
    memory: (Shape::Entry(Kind::Memory)),
    world_models: [(Shape::Entry(Kind::WorldModel))],
    sandbox: (Shape::Entry(Kind::Sandbox)),
    policies: [(Shape::Entry(Kind::Policy))],
    swarm: (Shape::Entry(Kind::Swarm)),
    telemetry: (Shape::Entry(Kind::Telemetry)),
}}

shape! { CHANNEL = {
    type!: ["telegram" | "discord" | "whatsapp" | "slack" | "email" | "webhook" | "cli" | "voice" | "web"
        | "lark" | "matrix" | "line" | "wechat" | "qq" | "dingtalk" | "cron" | "queue" | "imap"
        | "db-trigger" | "custom"],
    transport!: ["polling" | "webhook" | "websocket" | "stdio"],
    auth!: { secret_ref!: SECRET },
    access_control: {
        mode!: ["open" | "allowlist" | "pairing" | "role-based"],
        allowed_ids: STRINGS,
        pairing: { code_expiry_minutes!: POSITIVE, max_pending!: POSITIVE },
        roles: [{ id!: STRING, role!: ["admin" | "user" | "viewer"] }],
    },
    processing: {
        max_message_length: POSITIVE,
        rate_limit: { messages_per_minute: POSITIVE, burst: POSITIVE },
        typing_indicator: FLAG,
        read_receipts: FLAG,
    },
    features: { voice: FLAG, files: FLAG, reactions: FLAG, threads: FLAG, inline_images: FLAG },
    trigger: {
        schedule: TEXT,
        queue_name: TEXT,
        mailbox: TEXT,
        table: TEXT,
        events: [+ ["INSERT" | "UPDATE" | "DELETE"]],
        max_parallel: POSITIVE,
        overlap_policy: ["skip" | "queue" | "allow"],
    },
}}

shape! { IDENTITY = {
    personality!: TEXT,
    context_files: (Shape::Dict(&STRING)),
    locale: STRING,
    capabilities: STRINGS,
    autonomy: ["observer" | "supervised" | "autonomous"],
}}

shape! { MEMORY = { stores!: [+ {
    name!: TEXT,
    type!: ["conversation" | "semantic" | "key-value" | "workspace" | "checkpoint"],
    role: (idle ["sensory" | "working" | "episodic" | "semantic" | "procedural"]),
    backend: ["sqlite", later "postgresql" | "filesystem" | "sqlite-vec" | "pgvector" | "qdrant" | "custom",
        "write `backend: sqlite`, or leave it out"],
    retention: { max_age: DURATION, max_entries: POSITIVE },
    compaction: { enabled: FLAG, strategy: ["summarize" | "truncate" | "sliding-window"] },
    lifecycle: (idle {
        acquisition: ["event-driven" | "continuous" | "manual"],
        consolidation: ["none" | "summarize" | "merge" | "adaptive"],
        retrieval: ["exact" | "semantic" | "contextual" | "hybrid"],
    }),
    forgetting: (idle { strategy: ["none" | "decay" | "summarize" | "adaptive"], signals: STRINGS }),
    salience: (idle { enabled: FLAG, signals: STRINGS }),
    confidence: (idle { source_tracking: FLAG, decay: ["optional" | "none" | "adaptive"] }),
    embedding: {
        provider_ref!: (Shape::Ref(Kind::Provider)),
        model!: TEXT,
        dimensions!: (Shape::Int { min: 1, max: MEMORY_DIMENSIONS_MAX as u64 }),
    },
    search: {
        strategy: ["fts-only" | "vector-only" | "hybrid"],
        fusion: (Shape::Later { help: "take it out: words and vectors are mixed by reciprocal rank" }),
        top_k: (Shape::Int { min: 1, max: MEMORY_TOP_K_MAX as u64 }),
    },
    scope: ["global" | "per-identity" | "per-channel"],
    encryption: (Shape::Off { help: "take it out, and keep the state folder on an encrypted disk" }),
    path: PATH,
    isolation: ["shared" | "per-identity" | "per-channel"],
    max_size_mb: (Shape::Int { min: 1, max: MEMORY_SIZE_CEILING_MB }),
    checkpoint: { max_snapshots: POSITIVE, ttl: DURATION },
}] } }

// MCP's hints; other annotations are free, but what was meant as a hint is no other: a rule about it
// would silently never match.
shape! { ANNOTATIONS = {
    readOnlyHint: FLAG, destructiveHint: FLAG, idempotentHint: FLAG, openWorldHint: FLAG, ..
}}

// One documented extension: `match.name`. `conditions`, which the protocol leaves open, knows
// `path_within` alone.
shape! { POLICY = {
    rules!: [+ {
        id!: TEXT,
        action!: ["allow" | "deny" | "require-approval" | "audit-only"],
        scope!: ["tool" | "category" | "all"],
        match: { annotations: ANNOTATIONS, category: STRING, name: TEXT },
        reason: STRING,
        approval: { timeout_seconds: POSITIVE, default_if_timeout: ["deny" | "allow"] },
        conditions: { path_within: STRING },
        rate_limit: { cost_per_day_usd: NUMBER, tokens_per_day: COUNT },
    }],
    prompt_injection: {
        detection: ["pattern" | "none", later "llm-based" | "hybrid",
            "write `detection: pattern`: no model is asked about a call"],
        pattern_engine: ["aho-corasick"],
        pattern_count: COUNT,
        action: ["block-and-log" | "warn" | "log-only" | "ignore"],
    },
    secret_scanning: {
        enabled: FLAG,
        scope: ["input" | "output" | "both"],
        patterns: COUNT,
        action: ["redact" | "block" | "warn"],
    },
    input_validation: {
        max_size_bytes: COUNT,
        null_byte_detection: FLAG,
        whitespace_analysis: FLAG,
        encoding: ["utf-8" | "UTF-8"],
    },
    rate_limits: { tool_calls_per_minute: COUNT, tokens_per_hour: COUNT, cost_per_day_usd: NUMBER },
    audit: {
        log_inputs: FLAG,
        log_outputs: FLAG,
        log_approvals: FLAG,
        retention: DURATION,
        destination: ["file" | "sqlite" | "webhook" | "syslog"],
    },
}}

shape! { PROVIDER = {
    protocol!: ["openai-compatible" | "anthropic-native" | "custom"],
    endpoint!: TEXT,
    model!: TEXT,
    auth!: { type!: ["bearer" | "api-key-header" | "oauth2" | "none"], secret_ref: SECRET },
    streaming: FLAG,
    hints: { cost_priority: NUMBER, speed_priority: NUMBER, intelligence_priority: NUMBER },
    fallback: [{ provider_ref!: (Shape::Ref(Kind::Provider)) }],
    limits: {
        tokens_per_day: COUNT,
        tokens_per_request: COUNT,
        requests_per_minute: COUNT,
        max_context_window: COUNT,
    },
    retry: { max_attempts: POSITIVE, backoff: BACKOFF, initial_delay_ms: COUNT },
    capabilities: [["text" | "image" | "audio" | "video" | "realtime"]],
    transport: ["http" | "websocket" | "webrtc" | "grpc"],
}}

shape! { SANDBOX = {
    level!: ["none" | "process" | "wasm", later "container" | "vm",
        "this host isolates with wasm, and native processes with a jail: write `level: wasm` or `level: process`"],
    runtime: ["docker" | "apple-container" | "wasmtime" | "firecracker" | "gvisor" | "native"],
    capabilities: {
        network: {
            mode: ["deny" | "allowlist" | "allow-all"],
            allowed_hosts: STRINGS,
            ssrf_protection: { enabled: FLAG, block_private_ips: FLAG, dns_pinning: FLAG },
        },
        filesystem: {
            mode: ["deny" | "read-only" | "scoped", later "full",
                "no profile gets the whole file system: write `mode: scoped` and `mount_paths`"],
            mount_paths: [{ path!: PATH, permissions!: ["ro" | "rw"] }],
            denied_paths: [PATH],
        },
        secrets: {
            injection: ["host-boundary" | "environment", later "file-mount",
                "write `injection: host-boundary`, which keeps the value from the tool, or `injection: environment`"],
            encryption: STRING,
            leak_detection: (idle { enabled: FLAG, patterns: COUNT }),
        },
        shell: {
            mode: ["deny" | "restricted" | "full"],
            blocked_commands: STRINGS,
            blocked_patterns: STRINGS,
        },
    },
    resource_limits: {
        memory_mb: (up_to(GUEST_MEMORY_CEILING_MB)),
        cpu_shares: (idle COUNT),
        max_processes: (up_to(PROCESSES_CEILING_MAX)),
        max_open_files: (up_to(RESOURCES_MAX as u64)),
        timeout_ms: (up_to(TOOL_TIMEOUT_CEILING_MS)),
        max_output_bytes: (up_to(TOOL_OUTPUT_BYTES_MAX as u64)),
    },
}}

// Checked; nothing runs them yet.
shape! { SKILL = {
    description!: TEXT,
    tools_required!: [+ (Shape::Ref(Kind::Tool))],
    instruction!: TEXT,
    input_schema: OBJECT,
    output_schema: OBJECT,
    permissions: {
        network: FLAG,
        filesystem: ["none" | "read-only" | "write-workspace" | "full"],
        approval_required: FLAG,
    },
    world_model_ref: (Shape::Ref(Kind::WorldModel)),
    estimates: { avg_tokens: NUMBER, avg_duration_seconds: NUMBER, avg_tool_calls: COUNT },
}}

shape! { SWARM = {
    topology!: ["leader-worker" | "peer-to-peer" | "pipeline" | "broadcast" | "hierarchical"],
    agents!: [+ {
        identity_ref!: (Shape::Ref(Kind::Identity)),
        role!: TEXT,
        provider_ref: (Shape::Ref(Kind::Provider)),
        count: POSITIVE,
    }],
    coordination!: {
        message_passing!: ["queue" | "shared-memory" | "event-bus" | "direct"],
        backend!: ["in-process", later "sqlite-wal" | "redis" | "nats",
            "write `backend: in-process`"],
        concurrency!: { max_parallel: POSITIVE, sequential_within_agent: FLAG },
    },
    aggregation!: {
        strategy!: (idle ["leader-decides" | "majority-vote" | "merge" | "chain" | "best-of-n"]
            " (whoever gave a task gets each report)"),
        cost_aware: (idle FLAG),
        timeout_ms: (idle COUNT),
    },
    failure: {
        retry_per_agent: COUNT,
        dead_letter: (idle { enabled: FLAG, max_retries: COUNT }),
        circuit_breaker: (idle { failure_threshold: POSITIVE, reset_timeout_ms: COUNT }),
    },
    resource_limits: {
        max_total_tokens: COUNT,
        max_total_cost_usd: (idle NUMBER " (reports state no cost)"),
        max_duration_ms: COUNT,
    },
}}

shape! { TELEMETRY = {
    exporters!: [+ {
        type!: ["otlp" | "file" | "sqlite" | "webhook" | "console"],
        endpoint: URL,
        path: PATH,
        auth: { secret_ref: SECRET },
        batch: { max_size: POSITIVE, flush_interval_ms: (Shape::Int { min: 100, max: u64::MAX }) },
    }],
    events: {
        tool_calls: FLAG, memory_ops: FLAG, world_model_ops: (idle FLAG), planning_ops: (idle FLAG),
        swarm_ops: FLAG, lifecycle: FLAG, errors: FLAG,
    },
    metrics: {
        token_usage: FLAG, cost_usd: FLAG, latency_histogram: FLAG, prediction_error: (idle FLAG),
        retrieval_hit_rate: FLAG, plan_revision_count: (idle FLAG),
    },
    sampling: { rate: SHARE },
    redaction: { strip_arguments: FLAG, strip_results: FLAG },
}}

// What a tool lacks that no MCP server describes is for `mcp` to say.
shape! { TOOL = {
    description: TEXT,
    input_schema: OBJECT,
    output_schema: OBJECT,
    sandbox_ref: (Shape::Ref(Kind::Sandbox)),
    policy_ref: (Shape::Ref(Kind::Policy)),
    mcp_source: { uri!: TEXT, tool_name: TEXT },
    annotations: ANNOTATIONS,
    timeout_ms: (up_to(TOOL_TIMEOUT_CEILING_MS)),
    retry: { max_attempts: POSITIVE, backoff: BACKOFF },
    composite: FLAG,
    skill_ref: (Shape::Ref(Kind::Skill)),
}}

// Checked; nothing consults it yet.
shape! { WORLD_MODEL = {
    paradigm!: ["implicit" | "explicit" | "simulator" | "hybrid"],
    scope: ["agent-wide" | "task-scoped"],
    memory_ref: (Shape::Ref(Kind::Memory)),
    backend!: { type!: ["tool" | "provider" | "custom"], ref!: TEXT },
    predicts: { state: FLAG, observation: FLAG, risk: FLAG, cost: FLAG },
    planning: {
        horizon: ["adaptive" | "bounded" | "fixed"],
        uncertainty_mode: ["none" | "bounded" | "calibrated"],
        fallback: ["conservative" | "retry" | "escalate"],
    },
    update: { mode: ["online" | "batch" | "hybrid"], evidence: ["observations" | "observations+outcomes"] },
    constraints: { policy_ref: (Shape::Ref(Kind::Policy)) },
}}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_knows_every_kind() {
        let known = format!("{ENVELOPE:?}");
        assert!(Kind::ALL.iter().all(|kind| known.contains(&format!("{:?}", kind.document()))));
    }
}
