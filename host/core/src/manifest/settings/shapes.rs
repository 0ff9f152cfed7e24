//! The closed table of the runtime file, in the words of `kinds`.

use crate::limits::{
    ARGUMENTS_BYTES_MAX, COMPOSITE_STEPS_CEILING_MAX, CREATE_ENTRIES_MAX, NESTED_CALLS_MAX,
    NESTING_DEPTH_MAX, REPLY_BYTES_MAX, WRITE_BYTES_MAX,
};
use crate::manifest::shape::{
    ADDRESS, FLAG, NAME, PATH, SECRET, STRING, STRINGS, Shape, TEXT, URL, opt, req, shape, up_to,
};
use crate::mediate::bounds::{ITERATIONS, RESULT_BYTES, ROUNDS, TURN_MS};

/// The version of the runtime file's format.
pub(super) const FILE_VERSION: u64 = 1;

/// A whole number that is not 0.
const fn from_one(max: u64) -> Shape {
    Shape::Int { min: 1, max }
}

const LATER: Shape = Shape::Later { help: "take it out" };
const SIGNATURE: Shape = Shape::Later { help: "write `signed_by` with the public keys" };
/// The most a million tokens may cost, in US dollars: more is a typing error.
const PRICE: Shape = Shape::Real { max: 1_000_000.0 };

/// More failures than this in a row are no anomaly.
const FAILURES: Shape = from_one(100);

shape! { pub(super) LIMITS = {
    arguments_bytes_max: (from_one(ARGUMENTS_BYTES_MAX as u64)),
    calls_running_max: (from_one(1_000)),
    calls_running_per_agent_max: (from_one(1_000)),
    calls_waiting_max: (from_one(100_000)),
    reply_bytes_max: (from_one(REPLY_BYTES_MAX as u64)),
    shutdown_grace_ms: (from_one(600_000)),
}}

shape! { CHANNEL = { console: FLAG, file: PATH, secret: SECRET, webhook: URL } }

shape! { PROFILE = {
    env: (Shape::Dict(&STRING)),
    ports: [+ (from_one(u16::MAX as u64))],
    programs: STRINGS,
    provider: FLAG,
    memory: FLAG,
    all_costs: FLAG,
    channels: STRINGS,
    tool_calls_max: (up_to(NESTED_CALLS_MAX as u64)),
    write_bytes_max: (up_to(WRITE_BYTES_MAX)),
    create_entries_max: (up_to(CREATE_ENTRIES_MAX)),
    fuel_per_ms: LATER,
    oversize: ["cut" | "keep"],
    record: FLAG,
    secrets: [{ name!: SECRET, env: TEXT, hosts: STRINGS }],
    signature: SIGNATURE,
    signed_by: STRINGS,
}}

// Empty texts are as good as none: so the tool page of MCP clients has it.
shape! { MCP_SERVER = {
    args: STRINGS,
    auth: {
        type!: ["client-credentials" | "oauth"],
        issuer!: TEXT,
        client_id: TEXT,
        register: FLAG,
        scopes: STRINGS,
        secret: SECRET,
    },
    bearer: TEXT,
    command: STRING,
    endpoint: TEXT,
    env: (Shape::Dict(&STRING)),
    expose: [["completions" | "prompts" | "questions" | "resources"]],
    headers: (Shape::Dict(&STRING)),
    internal_only: FLAG,
    policy: TEXT,
    sandbox: TEXT,
    secrets: [{ name!: TEXT, env: TEXT, header: TEXT }],
    url: STRING,
}}

shape! { SERVICE = { allow: STRINGS, describe!: PATH, secret: SECRET, url!: URL } }

shape! { OCI = { http: FLAG, secret: TEXT, token_url: TEXT, user: TEXT } }

shape! { FILTER = {
    kinds!: [+ TEXT],
    boundaries!: [+ ["arguments" | "result" | "record" | "memory"]],
    action!: ["redact" | "block" | "warn"],
}}

shape! { PROVIDER = { input_usd_per_million: PRICE, output_usd_per_million: PRICE } }

shape! { pub(super) FILE = {
    version!: (Shape::Int { min: FILE_VERSION, max: FILE_VERSION }),
    agents: [{ name!: NAME, elicitation: FLAG, identity: TEXT, skills: [+ PATH] }],
    audit: { syslog: PATH, webhook: URL },
    channels: (Shape::Dict(&CHANNEL)),
    filters: (Shape::Dict(&FILTER)),
    http: { address: ADDRESS, allowed_hosts: STRINGS, allowed_origins: STRINGS, console: FLAG, metrics: ADDRESS },
    limits: LIMITS,
    oci: (Shape::Dict(&OCI)),
    profiles: (Shape::Dict(&PROFILE)),
    registries: [{ name!: NAME, url!: TEXT }],
    providers: (Shape::Dict(&PROVIDER)),
    proxy: {
        enabled: FLAG,
        history: FLAG,
        max_rounds: ROUNDS,
        max_tool_iterations: ITERATIONS,
        max_tool_result_bytes: RESULT_BYTES,
        prune_sentinels: STRINGS,
        repeated_calls: ["reject" | "replay"],
        spent_budget: ["finish" | "fail"],
        timeout_per_tool_ms: TURN_MS,
        total_timeout_ms: TURN_MS,
    },
    state: PATH,
    tools: {
        catalog: ["list" | "search"],
        directory: PATH,
        replace_builtins: STRINGS,
        exec: LATER,
        http_get: { block_private_ips: FLAG, domain_allowlist: STRINGS, domain_blocklist: STRINGS },
        mcp_servers: (Shape::Dict(&MCP_SERVER)),
        pins: ["first-use" | "require"],
        services: (Shape::Dict(&SERVICE)),
        signed_by: STRINGS,
        web_search: { endpoint: URL, header: TEXT, secret: SECRET },
    },
    composites: {
        max_depth: (from_one(NESTING_DEPTH_MAX as u64)),
        max_steps: (from_one(COMPOSITE_STEPS_CEILING_MAX as u64)),
    },
    contracts: { postcondition_mode: ["enforce" | "warn"] },
    definitions: STRINGS,
    immune: {
        enabled: FLAG,
        quarantine_threshold: FAILURES,
        quarantine_ttl: (Shape::Duration),
        retention_days: (from_one(365)),
        tool_no_auto: STRINGS,
        tool_thresholds: (Shape::Dict(&FAILURES)),
    },
    registry: { ca: PATH, name: NAME, password: SECRET, store: TEXT },
    store: LATER,
}}
