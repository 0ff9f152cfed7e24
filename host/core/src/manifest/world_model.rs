//! `kind: WorldModel`: a model of the environment. Checked here; nothing consults it yet.

use super::shape::{FLAG, Shape, TEXT, opt, req};

const BACKEND: Shape = Shape::Record(&[
    req("type", &Shape::OneOf(&["tool", "provider", "custom"])),
    req("ref", &TEXT),
]);

const PREDICTS: Shape = Shape::Record(&[
    opt("state", &FLAG),
    opt("observation", &FLAG),
    opt("risk", &FLAG),
    opt("cost", &FLAG),
]);

const PLANNING: Shape = Shape::Record(&[
    opt("horizon", &Shape::OneOf(&["adaptive", "bounded", "fixed"])),
    opt("uncertainty_mode", &Shape::OneOf(&["none", "bounded", "calibrated"])),
    opt("fallback", &Shape::OneOf(&["conservative", "retry", "escalate"])),
]);

const UPDATE: Shape = Shape::Record(&[
    opt("mode", &Shape::OneOf(&["online", "batch", "hybrid"])),
    opt("evidence", &Shape::OneOf(&["observations", "observations+outcomes"])),
]);

pub(crate) const SPEC: Shape = Shape::Record(&[
    req("paradigm", &Shape::OneOf(&["implicit", "explicit", "simulator", "hybrid"])),
    opt("scope", &Shape::OneOf(&["agent-wide", "task-scoped"])),
    opt("memory_ref", &TEXT),
    req("backend", &BACKEND),
    opt("predicts", &PREDICTS),
    opt("planning", &PLANNING),
    opt("update", &UPDATE),
    opt("constraints", &Shape::Record(&[opt("policy_ref", &TEXT)])),
]);
