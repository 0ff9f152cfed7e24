//! `kind: Memory`: what the agent remembers. Checked here; no store is opened by this version.

use super::shape::{DURATION, FLAG, POSITIVE, STRING, STRINGS, Shape, TEXT, opt, req};

const RETENTION: Shape = Shape::Record(&[opt("max_age", &DURATION), opt("max_entries", &POSITIVE)]);

const COMPACTION: Shape = Shape::Record(&[
    opt("enabled", &FLAG),
    opt("strategy", &Shape::OneOf(&["summarize", "truncate", "sliding-window"])),
]);

const EMBEDDING: Shape =
    Shape::Record(&[req("provider_ref", &TEXT), req("model", &TEXT), req("dimensions", &POSITIVE)]);

const SEARCH: Shape = Shape::Record(&[
    opt("strategy", &Shape::OneOf(&["vector-only", "fts-only", "hybrid"])),
    opt("fusion", &Shape::OneOf(&["reciprocal-rank", "linear-combination"])),
    opt("top_k", &POSITIVE),
]);

const LIFECYCLE: Shape = Shape::Record(&[
    opt("acquisition", &Shape::OneOf(&["event-driven", "continuous", "manual"])),
    opt("consolidation", &Shape::OneOf(&["none", "summarize", "merge", "adaptive"])),
    opt("retrieval", &Shape::OneOf(&["exact", "semantic", "contextual", "hybrid"])),
]);

const FORGETTING: Shape = Shape::Record(&[
    opt("strategy", &Shape::OneOf(&["none", "decay", "summarize", "adaptive"])),
    opt("signals", &STRINGS),
]);

const SALIENCE: Shape = Shape::Record(&[opt("enabled", &FLAG), opt("signals", &STRINGS)]);

const CONFIDENCE: Shape = Shape::Record(&[
    opt("source_tracking", &FLAG),
    opt("decay", &Shape::OneOf(&["optional", "none", "adaptive"])),
]);

const REACH: Shape = Shape::OneOf(&["global", "per-identity", "per-channel"]);

const STORE: Shape = Shape::Record(&[
    req("name", &TEXT),
    req(
        "type",
        &Shape::OneOf(&["conversation", "semantic", "key-value", "workspace", "checkpoint"]),
    ),
    opt("role", &Shape::OneOf(&["sensory", "working", "episodic", "semantic", "procedural"])),
    opt(
        "backend",
        &Shape::OneOf(&[
            "sqlite",
            "postgresql",
            "filesystem",
            "sqlite-vec",
            "pgvector",
            "qdrant",
            "custom",
        ]),
    ),
    opt("retention", &RETENTION),
    opt("compaction", &COMPACTION),
    opt("lifecycle", &LIFECYCLE),
    opt("forgetting", &FORGETTING),
    opt("salience", &SALIENCE),
    opt("confidence", &CONFIDENCE),
    opt("embedding", &EMBEDDING),
    opt("search", &SEARCH),
    opt("scope", &REACH),
    opt("encryption", &FLAG),
    opt("path", &STRING),
    opt("isolation", &Shape::OneOf(&["shared", "per-identity", "per-channel"])),
    opt("max_size_mb", &POSITIVE),
    opt("checkpoint", &Shape::Record(&[opt("max_snapshots", &POSITIVE), opt("ttl", &DURATION)])),
]);

pub(crate) const SPEC: Shape = Shape::Record(&[req("stores", &Shape::List { of: &STORE, min: 1 })]);
