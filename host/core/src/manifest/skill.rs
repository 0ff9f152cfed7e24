//! `kind: Skill`: instructions that need certain tools. Checked here; nothing runs them yet.

use super::shape::{COUNT, FLAG, NUMBER, OBJECT, Shape, TEXT, opt, req};

const PERMISSIONS: Shape = Shape::Record(&[
    opt("network", &FLAG),
    opt("filesystem", &Shape::OneOf(&["none", "read-only", "write-workspace", "full"])),
    opt("approval_required", &FLAG),
]);

const ESTIMATES: Shape = Shape::Record(&[
    opt("avg_tokens", &NUMBER),
    opt("avg_duration_seconds", &NUMBER),
    opt("avg_tool_calls", &COUNT),
]);

pub(crate) const SPEC: Shape = Shape::Record(&[
    req("description", &TEXT),
    req("tools_required", &Shape::List { of: &TEXT, min: 1 }),
    req("instruction", &TEXT),
    opt("input_schema", &OBJECT),
    opt("output_schema", &OBJECT),
    opt("permissions", &PERMISSIONS),
    opt("world_model_ref", &TEXT),
    opt("estimates", &ESTIMATES),
]);
