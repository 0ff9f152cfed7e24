//! Whether a composite ends: how deep composites may be nested, and how many calls they may make.

use std::sync::Arc;

use super::steps::{Composite, Step};
use crate::limits::{COMPOSITE_STEPS_MAX, NESTED_CALLS_MAX, NESTING_DEPTH_MAX};
use crate::manifest::DocumentError;

/// What a fault is called where what is called is not there.
const UNKNOWN_TOOL: &str = "unknown_tool";

/// How large composites may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompositeBounds {
    /// Composites within composites.
    pub depth_max: usize,
    /// Steps of one.
    pub steps_max: usize,
}

impl Default for CompositeBounds {
    fn default() -> Self {
        Self { depth_max: NESTING_DEPTH_MAX, steps_max: COMPOSITE_STEPS_MAX }
    }
}

/// What a step calls.
#[derive(Debug, Clone)]
pub struct Called {
    /// Its CKP name.
    pub name: String,
    /// What it is made of, where it is a composite itself.
    pub composite: Option<Arc<Composite>>,
}

/// Why a composite cannot run, and which of its own steps it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The step, from 0.
    pub step: usize,
    /// Which bound it is.
    pub limit: &'static str,
    /// What is wrong.
    pub reason: String,
}

impl Fault {
    /// Returns it as a problem of the definition file, at the step of `composite` that it is about.
    pub fn at(&self, composite: &Composite) -> Option<DocumentError> {
        let at = &composite.steps.get(self.step)?.at;
        let (reason, help) = (self.reason.clone(), "take the step out, or call another tool");
        Some(match self.limit {
            UNKNOWN_TOOL => at.missing(reason, help),
            _ => at.invalid(reason, help),
        })
    }
}

impl Composite {
    /// Says whether it ends: every tool is there, nothing is called within itself, and the whole stays
    /// within `bounds`. `find` knows the tools; `name` is the composite's own CKP name.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn check(
        &self,
        name: &str,
        bounds: CompositeBounds,
        find: &dyn Fn(&str) -> Option<Called>,
    ) -> Result<(), Fault> {
        let mut walk = Walk { bounds, find, path: vec![name.to_owned()], calls: 0 };
        walk.enter(self)
    }
}

/// A walk through all that a composite calls.
struct Walk<'a> {
    bounds: CompositeBounds,
    find: &'a dyn Fn(&str) -> Option<Called>,
    path: Vec<String>,
    calls: usize,
}

impl Walk<'_> {
    fn enter(&mut self, composite: &Composite) -> Result<(), Fault> {
        let fault = |step, limit, reason| Fault { step, limit, reason };
        let (depth_max, steps_max) = (self.bounds.depth_max, self.bounds.steps_max);
        if self.path.len() > depth_max {
            let reason = format!("composites are nested deeper than {depth_max}");
            return Err(fault(0, "composites.max_depth", reason));
        }
        if composite.steps.len() > steps_max {
            let reason = format!("a composite has no more than {steps_max} steps");
            return Err(fault(steps_max, "composites.max_steps", reason));
        }
        for (index, step) in composite.steps.iter().enumerate() {
            self.step(step).map_err(|(limit, reason)| fault(index, limit, reason))?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), (&'static str, String)> {
        let Some(called) = (self.find)(&step.tool) else {
            return Err((UNKNOWN_TOOL, format!("no tool is called `{}`", step.tool)));
        };
        self.calls += 1;
        if self.calls > NESTED_CALLS_MAX {
            let reason = format!("its steps are more than {NESTED_CALLS_MAX} calls in all");
            return Err(("NESTED_CALLS_MAX", reason));
        }
        if self.path.contains(&called.name) {
            let reason = format!("`{}` calls itself: {}", called.name, self.path.join(" > "));
            return Err(("cycle", reason));
        }
        let Some(inner) = called.composite else { return Ok(()) };
        self.path.push(called.name);
        let inside = self.enter(&inner).map_err(|fault| (fault.limit, fault.reason));
        self.path.pop();
        inside
    }
}
