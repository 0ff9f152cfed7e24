//! The closed table of the runtime file, in the words of `kinds`.

use crate::limits::{ARGUMENTS_BYTES_MAX, CREATE_ENTRIES_MAX, REPLY_BYTES_MAX, WRITE_BYTES_MAX};
use crate::manifest::shape::{FLAG, PATH, STRING, STRINGS, Shape, TEXT, opt, req, shape, up_to};

/// The version of the runtime file's format.
pub(super) const FILE_VERSION: u64 = 1;

/// A whole number that is not 0.
const fn from_one(max: u64) -> Shape {
    Shape::Int { min: 1, max }
}

const LATER: Shape = Shape::Later { help: "take it out" };
/// The most a million tokens may cost, in US dollars: more is a typing error.
const PRICE: Shape = Shape::Real { max: 1_000_000.0 };

shape! { pub(super) LIMITS = {
    arguments_bytes_max: (from_one(ARGUMENTS_BYTES_MAX as u64)),
    calls_running_max: (from_one(1_000)),
    calls_waiting_max: (from_one(100_000)),
    reply_bytes_max: (from_one(REPLY_BYTES_MAX as u64)),
    shutdown_grace_ms: (from_one(600_000)),
}}

shape! { CHANNEL = { console: FLAG, file: PATH, secret: TEXT, webhook: TEXT } }

shape! { PROFILE = {
    env: (Shape::Dict(&STRING)),
    ports: [+ (from_one(u16::MAX as u64))],
    programs: STRINGS,
    provider: FLAG,
    memory: FLAG,
    all_costs: FLAG,
    channels: STRINGS,
    write_bytes_max: (up_to(WRITE_BYTES_MAX)),
    create_entries_max: (up_to(CREATE_ENTRIES_MAX)),
    fuel_per_ms: LATER,
    oversize: LATER,
    record: LATER,
    secrets: [{ name!: TEXT, env: TEXT, hosts: STRINGS }],
    signature: LATER,
}}

// Empty texts are as good as none: so the tool page of MCP clients has it.
shape! { MCP_SERVER = {
    args: STRINGS,
    bearer: TEXT,
    command: STRING,
    endpoint: TEXT,
    env: (Shape::Dict(&STRING)),
    headers: (Shape::Dict(&STRING)),
    internal_only: FLAG,
    policy: TEXT,
    sandbox: TEXT,
    secrets: [{ name!: TEXT, env: TEXT, header: TEXT }],
    url: STRING,
}}

shape! { PROVIDER = { input_usd_per_million: PRICE, output_usd_per_million: PRICE } }

shape! { pub(super) FILE = {
    version!: (Shape::Int { min: FILE_VERSION, max: FILE_VERSION }),
    agents: [{ name!: TEXT, elicitation: FLAG, identity: TEXT }],
    audit: { syslog: PATH, webhook: TEXT },
    channels: (Shape::Dict(&CHANNEL)),
    http: { address: TEXT, allowed_hosts: STRINGS, allowed_origins: STRINGS },
    limits: LIMITS,
    profiles: (Shape::Dict(&PROFILE)),
    registries: [{ name!: TEXT, url!: TEXT }],
    providers: (Shape::Dict(&PROVIDER)),
    state: PATH,
    tools: {
        directory: PATH,
        replace_builtins: STRINGS,
        exec: LATER,
        http_get: { block_private_ips: FLAG, domain_allowlist: STRINGS, domain_blocklist: STRINGS },
        mcp_servers: (Shape::Dict(&MCP_SERVER)),
        pins: ["first-use" | "require"],
        web_search: { endpoint: TEXT, header: TEXT, secret: TEXT },
    },
    composites: LATER,
    contracts: LATER,
    immune: LATER,
    registry: LATER,
    store: LATER,
}}
