//! Calls within calls: what an executor makes its tool's own calls with.
//!
//! A child is a call like any other: recorded, found, admitted, run and filtered on the one path, for
//! the principal of its parent and under the same session. It ends when its parent does, and no tool is
//! called within itself. Its reply is handed over whole, without known secrets; masks and the size cap
//! are for the outermost reply. Deliberately absent: any way round a check.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use clawhost_core::catalog::Tool;
use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::limits::{NESTED_CALLS_MAX, NESTING_DEPTH_MAX, TOOL_CALLS_REFUSED_MAX};
use clawhost_core::reply::ToolReply;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::Mutex;

use super::CallContext;
use crate::sandbox::CallTools;

/// Where a call stands that another one makes. Only the host makes one.
#[derive(Debug, Clone)]
pub struct Nesting {
    /// The tools that it is within, by CKP name, the outermost first.
    path: Vec<String>,
    /// The record's name of the outermost call.
    pub root: String,
    /// The record's name of the call that makes it.
    pub parent: String,
    /// When the parent ends.
    pub ends_at: Instant,
    /// How often it is tried, where the parent says that rather than the tool's own plan.
    pub max_attempts: Option<u64>,
    /// How many more calls may be made within the outermost one, and how many more refusals recorded.
    left: Arc<(AtomicUsize, AtomicUsize)>,
    /// The parent's place among the running calls, which one child at a time runs in: the parent waits.
    pub place: Arc<Mutex<()>>,
}

impl Nesting {
    /// Returns where the calls stand that `tool` makes, which ends at `ends_at`; `own` is where it
    /// stands itself, and `id` what the record calls it.
    pub fn within(own: Option<&Self>, tool: &str, id: &str, ends_at: Instant) -> Self {
        let mut path = own.map(|own| own.path.clone()).unwrap_or_default();
        path.push(tool.to_owned());
        let counters = || Arc::new((NESTED_CALLS_MAX.into(), TOOL_CALLS_REFUSED_MAX.into()));
        Self {
            path,
            root: own.map_or(id, |own| &own.root).to_owned(),
            parent: id.to_owned(),
            ends_at: own.map_or(ends_at, |own| own.ends_at.min(ends_at)),
            max_attempts: None,
            left: own.map_or_else(counters, |own| Arc::clone(&own.left)),
            place: Arc::default(),
        }
    }

    /// Says whether `tool` may be called here.
    ///
    /// # Errors
    /// -32011: it is called within itself, or too deep.
    pub fn check(&self, tool: &str) -> Result<(), CallError> {
        if self.path.iter().any(|of| of == tool) {
            let text = format!("`{tool}` is called within itself: {}", self.path.join(" > "));
            return Err(refused(text, Limit::Cycle));
        }
        if self.path.len() > NESTING_DEPTH_MAX {
            let text = format!("calls are nested deeper than {NESTING_DEPTH_MAX}");
            return Err(refused(text, Limit::NestingDepth));
        }
        Ok(())
    }

    fn take(&self) -> Result<(), CallError> {
        let text = || format!("one call makes no more than {NESTED_CALLS_MAX} others");
        let is_taken = take_one(&self.left.0);
        is_taken.then_some(()).ok_or_else(|| refused(text(), Limit::NestedCalls))
    }
}

fn take_one(left: &AtomicUsize) -> bool {
    let less = |left: usize| left.checked_sub(1);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
}

fn refused(text: String, limit: Limit) -> CallError {
    CallError::new(ErrorKind::Overloaded, text).with("stage", "nesting").with_limit(limit)
}

/// A call that a tool makes.
#[derive(Debug)]
pub struct Child {
    /// Who calls: whoever called the tool.
    pub principal: String,
    /// The tool that is called, by any of its names.
    pub tool: String,
    /// The arguments; anything but an object is refused.
    pub arguments: Value,
    /// The time that it may take.
    pub timeout: Duration,
    /// What its parent's caller says, and where it stands.
    pub context: CallContext,
}

/// The path, from its beginning.
pub trait Reenter: Send + Sync {
    /// Carries out a call that another one makes.
    fn reenter(&self, child: Child) -> BoxFuture<'_, Result<ToolReply, CallError>>;
    /// Returns the tools that `principal` could call with `context`, but for the host's own.
    fn offered(&self, principal: &str, context: &CallContext) -> Vec<Arc<Tool>>;
}

/// Makes the calls of one tool while it runs. Cheap to clone: all clones share one budget.
#[derive(Clone)]
pub struct Nest {
    path: Weak<dyn Reenter>,
    principal: String,
    context: CallContext,
    nesting: Nesting,
}

impl Nest {
    /// Returns what makes calls on `path` that stand at `nesting`.
    pub fn new(
        path: Weak<dyn Reenter>,
        principal: &str,
        context: &CallContext,
        nesting: Nesting,
    ) -> Self {
        Self { path, principal: principal.to_owned(), context: context.clone(), nesting }
    }

    /// Calls `tool` within what is left of the parent's time, or `timeout` where that is less. With
    /// `max_attempts`, a passing failure is tried again so often, whatever the tool's own plan says.
    ///
    /// # Errors
    /// As of any call; and -32011 at stage `nesting` where it would be one too many, too deep or within
    /// itself.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Value,
        timeout: Option<Duration>,
        max_attempts: Option<u64>,
    ) -> Result<ToolReply, CallError> {
        let refused = self.nesting.take().err();
        let nesting = Nesting { max_attempts, ..self.nesting.clone() };
        self.enter(tool, arguments, timeout, nesting, refused).await
    }

    /// Sends a call on its way; one that is `refused` already goes no further than its record. Once as many have
    /// one as a guest's refusals may have, those of all guests together have none.
    async fn enter(
        &self,
        tool: &str,
        arguments: Value,
        timeout: Option<Duration>,
        nesting: Nesting,
        refused: Option<CallError>,
    ) -> Result<ToolReply, CallError> {
        let Some(path) = self.path.upgrade() else {
            return Err(self::refused("the host is shutting down".to_owned(), Limit::Shutdown));
        };
        if let Some(why) = refused.as_ref().filter(|_| !take_one(&nesting.left.1)) {
            return Err(why.clone());
        }
        let left = nesting.ends_at.saturating_duration_since(Instant::now());
        let child = Child {
            principal: self.principal.clone(),
            tool: tool.to_owned(),
            arguments,
            timeout: timeout.map_or(left, |timeout| timeout.min(left)),
            context: CallContext {
                nested: Some(Arc::new(nesting)),
                refused,
                ..self.context.clone()
            },
        };
        path.reenter(child).await
    }
}

impl CallTools for Nest {
    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Value,
        timeout: Option<Duration>,
    ) -> BoxFuture<'a, Result<ToolReply, CallError>> {
        Box::pin(self.call(tool, arguments, timeout, None))
    }

    fn refuse<'a>(
        &'a self,
        tool: &'a str,
        arguments: Value,
        why: CallError,
    ) -> BoxFuture<'a, Result<ToolReply, CallError>> {
        Box::pin(self.enter(tool, arguments, None, self.nesting.clone(), Some(why)))
    }

    fn offered(&self) -> Vec<Arc<Tool>> {
        let path = self.path.upgrade();
        let offered = path.map(|path| path.offered(&self.principal, &self.context));
        let mut tools = offered.unwrap_or_default();
        tools.retain(|tool| self.nesting.check(&tool.ckp_name).is_ok());
        tools
    }
}

clawhost_core::shows!(Nest { nesting });

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts what comes to its record.
    #[derive(Default)]
    struct Records(AtomicUsize);

    impl Reenter for Records {
        fn reenter(&self, child: Child) -> BoxFuture<'_, Result<ToolReply, CallError>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move { Err(child.context.refused.unwrap()) })
        }

        fn offered(&self, _: &str, _: &CallContext) -> Vec<Arc<Tool>> {
            Vec::new()
        }
    }

    #[tokio::test]
    async fn the_refusals_of_all_guests_within_one_call_share_one_bound_of_records() {
        let end = Instant::now() + Duration::from_secs(9);
        let root = Nesting::within(None, "a", "1", end);
        let records = Arc::new(Records::default());
        let path: Arc<dyn Reenter> = Arc::clone(&records) as _;
        for id in 0..3 {
            let nesting = Nesting::within(Some(&root), "b", &format!("1{id}"), end);
            let guest = Nest::new(Arc::downgrade(&path), "me", &CallContext::default(), nesting);
            for _ in 0..TOOL_CALLS_REFUSED_MAX {
                let why = refused("no".to_owned(), Limit::ToolCalls);
                let told = CallTools::refuse(&guest, "c", Value::Null, why).await.unwrap_err();
                assert_eq!(told.data["limit"], "tool_calls_max");
            }
        }
        assert_eq!(records.0.load(Ordering::Relaxed), TOOL_CALLS_REFUSED_MAX);
    }

    #[test]
    fn no_tool_is_called_within_itself_too_deep_or_too_often() {
        let end = Instant::now();
        let mut at = Nesting::within(None, "a", "1", end);
        assert!(at.check("b").is_ok());
        assert_eq!(at.check("a").unwrap_err().data["limit"], "cycle");
        for (id, tool) in ["b", "c", "d"].into_iter().enumerate() {
            at = Nesting::within(Some(&at), tool, &format!("1{id}"), end + Duration::from_secs(9));
        }
        assert!(at.check("e").is_ok());
        assert_eq!((at.root.as_str(), at.parent.as_str(), at.ends_at), ("1", "12", end));
        let deeper = Nesting::within(Some(&at), "e", "13", end);
        assert_eq!(deeper.check("f").unwrap_err().data["limit"], "NESTING_DEPTH_MAX");
        assert_eq!(deeper.check("c").unwrap_err().data["limit"], "cycle");
        (0..NESTED_CALLS_MAX).for_each(|_| at.take().unwrap());
        assert_eq!(deeper.take().unwrap_err().data["limit"], "NESTED_CALLS_MAX");
    }
}
