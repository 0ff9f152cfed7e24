//! Instances that are made ahead of the calls that enter them, each for one call.
//!
//! To make an instance and to end it is half of what a short call takes. So the next one of a component is made,
//! and the one that was used is ended, when the task of the call waits or ends: of a server, when the answer is on
//! its way. What waits here is what a call would have made for itself: its start asked nothing of the host, not even
//! for more memory, or it does not wait. Deliberately absent: a call's own state, before it or after it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clawhost_core::limits::{
    FUEL_YIELD_INTERVAL, INSTANCE_AHEAD_FUEL_MAX, INSTANCE_AHEAD_MEMORY_BYTES_MAX,
    INSTANCES_AHEAD_MAX,
};
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use wasmtime::component::{Instance, InstancePre};
use wasmtime::{Store, Trap, ensure, format_err};

use super::{Allocator, Engine, Loaded, settings};
use crate::sandbox::CallState;
use crate::sandbox::clock::Exceeded;

// A start that yielded could not be made in one go.
const _: () = assert!(INSTANCE_AHEAD_FUEL_MAX < FUEL_YIELD_INTERVAL);

/// An instance that nobody has entered, whose store holds an empty state.
pub(crate) struct Ahead {
    pub(crate) store: Store<CallState>,
    pub(crate) instance: Instance,
}

/// The instances of all components that wait for a call, the one that has waited longest first. Each belongs to a
/// component, which is known by where it lies in memory.
#[derive(Default)]
pub(super) struct Waiting {
    all: Mutex<VecDeque<(usize, Ahead)>>,
    /// What is to be done behind an answer was not done yet.
    is_due: AtomicBool,
}

impl Waiting {
    /// Returns one of `component` that is `fit`. Any other waits on, for whom it is.
    fn take(&self, component: usize, fit: impl Fn(&Ahead) -> bool) -> Option<Ahead> {
        let mut all = self.all.lock();
        let at = all.iter().position(|(of, ahead)| *of == component && fit(ahead))?;
        all.remove(at).map(|(_, ahead)| ahead)
    }

    fn has(&self, component: usize) -> bool {
        self.all.lock().iter().any(|(of, _)| *of == component)
    }

    /// Puts one more there, in the place of the one that has waited longest where there are too many.
    fn put(&self, component: usize, ahead: Ahead) {
        let mut all = self.all.lock();
        let oldest = if all.len() < INSTANCES_AHEAD_MAX { None } else { all.pop_front() };
        all.push_back((component, ahead));
        // To end one takes longer than others should wait for.
        drop(all);
        drop(oldest);
    }

    /// Ends those of a component that is there no more.
    pub(super) fn forget(&self, component: usize) {
        let mut all = self.all.lock();
        let (gone, left): (VecDeque<_>, _) =
            std::mem::take(&mut *all).into_iter().partition(|(of, _)| *of == component);
        *all = left;
        drop(all);
        drop(gone);
    }
}

/// The one thing of an engine that is to be done behind an answer.
struct Due(Arc<Engine>);

impl Due {
    /// Returns nothing where something else is due.
    fn of(engine: &Arc<Engine>) -> Option<Self> {
        let was_due = engine.waiting.is_due.swap(true, Ordering::Relaxed);
        (!was_due).then(|| Self(Arc::clone(engine)))
    }
}

impl Drop for Due {
    fn drop(&mut self) {
        self.0.waiting.is_due.store(false, Ordering::Relaxed);
    }
}

impl Loaded {
    /// Returns what it is known by as long as it is there.
    pub(super) fn place(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns an instance that was made ahead, if one waits that the call of `state` may have.
    pub(crate) fn take_ahead(&self, state: &CallState) -> Option<Ahead> {
        self.engine.waiting.take(self.place(), |ahead| state.may_have(&ahead.store))
    }

    /// Ends the instance `spent` of a call that has ended, and makes the next one, when the task that says so waits:
    /// for whatever comes after its answer. Outside of a task, and where as much is due already, `spent` ends at
    /// once, and there is no next one.
    pub(crate) fn prepare_next(self: &Arc<Self>, spent: Option<Store<CallState>>) {
        if tokio::task::try_id().is_none() || (spent.is_none() && !self.may_wait()) {
            return;
        }
        let Some(due) = Due::of(&self.engine) else { return };
        let this = Arc::clone(self);
        tokio::spawn(async move {
            drop(spent);
            this.make_next();
            drop(due);
        });
    }

    /// Says whether an instance of it may wait, as far as is known. Without a pool, each would hold address space,
    /// of which there is little then; and what starts in WASI 0.3 may have tasks.
    fn may_wait(&self) -> bool {
        let is_unfit = self.is_p3 || self.is_unfit.load(Ordering::Relaxed);
        !is_unfit && self.engine.allocator == Allocator::Pool
    }

    fn make_next(&self) {
        let Some(code) = self.code_at_hand() else { return };
        if !self.may_wait() || self.engine.waiting.has(self.place()) {
            return;
        }
        match made(&code.pre) {
            Ok(ahead) => self.engine.waiting.put(self.place(), ahead),
            Err(error) if is_its_own(&error) => self.is_unfit.store(true, Ordering::Relaxed),
            // Of the moment: other calls have all places, or the system has no memory.
            Err(error) => tracing::debug!("no instance was made ahead of a call: {error:#}"),
        }
    }
}

/// Makes an instance, in one go.
///
/// # Errors
/// Its start takes more than it may ahead of a call, or anything of the host; or there is no room now.
fn made(pre: &InstancePre<CallState>) -> wasmtime::Result<Ahead> {
    let needs = pre.component().resources_required();
    let is_small = needs.is_some_and(|needs| {
        needs.num_memories.max(needs.num_tables) as usize <= settings::SLOTS_PER_CALL
    });
    if !is_small {
        return Err(Exceeded::Memory.into());
    }
    let mut store = CallState::vacant(INSTANCE_AHEAD_MEMORY_BYTES_MAX)?.into_store(pre.engine())?;
    store.set_fuel(INSTANCE_AHEAD_FUEL_MAX)?;
    let making = pre.instantiate_async(&mut store).now_or_never();
    let instance = making.ok_or_else(|| format_err!("its start waits"))??;
    // Fuel is looked at where a function begins and a loop goes on, and counts what ran since.
    ensure!(store.get_fuel()? > 0, Exceeded::Fuel);
    Ok(Ahead { store, instance })
}

/// Says whether the component itself keeps its instances from being made ahead, each time.
fn is_its_own(error: &wasmtime::Error) -> bool {
    error.is::<Exceeded>() || error.is::<Trap>()
}

#[cfg(test)]
mod tests {
    use std::future::Future;

    use claw_guest_artifacts::BUILT_IN;

    use super::*;

    /// Exports `f`, and does at its start what is put in here.
    fn starts_with(
        import: &str,
        lowered: &str,
        imports: &str,
        instance: &str,
        start: &str,
    ) -> String {
        format!(
            r#"(component {import} {lowered}
                (core module $m {imports} (memory 1) (func $start {start}) (start $start)
                    (func (export "f") (result i32) (i32.const 7)))
                (core instance $i (instantiate $m {instance}))
                (func (export "f") (result u32) (canon lift (core func $i "f"))))"#
        )
    }

    async fn loaded(engine: &Arc<Engine>, bytes: &[u8]) -> Arc<Loaded> {
        engine.load(bytes.to_vec()).await.unwrap()
    }

    fn with_memory(memory: &str) -> String {
        starts_with("", "", "", "", "").replace("(memory 1)", memory)
    }

    fn with_memories(count: usize) -> String {
        let more = "(core instance (instantiate $m))".repeat(count - 1);
        starts_with("", "", "", "", "")
            .replace("(core instance $i", &format!("{more} (core instance $i"))
    }

    /// Does `work` in a task, and what it leaves to be done behind it.
    async fn in_a_task(work: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(work).await.unwrap();
        tokio::task::yield_now().await;
    }

    async fn prepared(loaded: &Arc<Loaded>) -> Option<Ahead> {
        let next = Arc::clone(loaded);
        in_a_task(async move { next.prepare_next(None) }).await;
        loaded.take_ahead(&call_of(u64::MAX))
    }

    /// Returns the state of a call that may have so much memory.
    fn call_of(memory_bytes_max: u64) -> CallState {
        CallState::vacant(memory_bytes_max).unwrap()
    }

    fn built_in(name: &str) -> &'static [u8] {
        BUILT_IN.iter().find(|artifact| artifact.name == name).unwrap().bytes
    }

    fn in_use(engine: &Engine) -> u64 {
        engine.plain.engine.pooling_allocator_metrics().unwrap().component_instances()
    }

    #[tokio::test]
    async fn one_instance_is_made_behind_an_answer_and_taken_once() {
        let engine = Arc::new(Engine::new(1, None).unwrap());
        let loaded = loaded(&engine, built_in("calculator")).await;
        loaded.prepare_next(None);
        assert!(!engine.waiting.is_due.load(Ordering::Relaxed), "there is no task to wait for");
        for _ in 0..3 {
            let ahead = prepared(&loaded).await.unwrap();
            assert!(loaded.take_ahead(&call_of(u64::MAX)).is_none());
            let next = Arc::clone(&loaded);
            in_a_task(async move { next.prepare_next(Some(ahead.store)) }).await;
            assert_eq!(in_use(&engine), 1, "the one that was used has ended");
        }
        drop(loaded);
        assert_eq!(in_use(&engine), 0);
    }

    #[tokio::test]
    async fn no_more_wait_than_may_and_the_latest_do() {
        let engine = Arc::new(Engine::new(1, None).unwrap());
        let mut all = Vec::new();
        for _ in 0..=INSTANCES_AHEAD_MAX {
            let one = loaded(&engine, built_in("calculator")).await;
            let next = Arc::clone(&one);
            in_a_task(async move { next.prepare_next(None) }).await;
            all.push(one);
        }
        assert_eq!(in_use(&engine), INSTANCES_AHEAD_MAX as u64);
        let call = call_of(u64::MAX);
        assert!(all[0].take_ahead(&call).is_none());
        assert!(all[1..].iter().all(|one| one.take_ahead(&call).is_some()));
    }

    #[tokio::test]
    async fn one_thing_is_due_at_a_time() {
        let engine = Arc::new(Engine::new(1, None).unwrap());
        let loaded = loaded(&engine, built_in("calculator")).await;
        // As it is kept by what a runtime has not come to, and drops.
        let due = Due::of(&engine).unwrap();
        assert!(Due::of(&engine).is_none() && prepared(&loaded).await.is_none());
        drop(due);
        assert!(prepared(&loaded).await.is_some());
    }

    #[tokio::test]
    async fn what_has_more_memory_than_a_call_may_have_is_not_for_that_call() {
        let engine = Arc::new(Engine::new(1, None).unwrap());
        let loaded = loaded(&engine, with_memory("(memory 2)").as_bytes()).await;
        let next = Arc::clone(&loaded);
        in_a_task(async move { next.prepare_next(None) }).await;
        assert!(loaded.take_ahead(&call_of(131_071)).is_none());
        assert!(loaded.take_ahead(&call_of(131_072)).is_some(), "it waits on for this one");
    }

    #[test]
    fn what_there_is_no_room_for_now_is_tried_again() {
        let full = std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        assert!(!is_its_own(&wasmtime::Error::from(full)));
        assert!(is_its_own(&wasmtime::Error::from(Exceeded::Memory).context("its start")));
    }

    #[tokio::test]
    async fn a_start_that_asks_the_host_takes_long_or_takes_much_is_the_calls_own() {
        const CLOCK: &str = r#"(import "wasi:clocks/monotonic-clock@0.2.6" (instance $clock
            (export "now" (func (result u64)))))"#;
        const LOWERED: &str = r#"(core func $now (canon lower (func $clock "now")))"#;
        const IMPORTS: &str = r#"(import "h" "now" (func $now (result i64)))"#;
        const INSTANCE: &str = r#"(with "h" (instance (export "now" (func $now))))"#;
        const LOOP: &str = "(local $n i32) (loop $more (br_if $more (i32.ne (i32.const 1000000)
            (local.tee $n (i32.add (local.get $n) (i32.const 1))))))";
        let engine = Arc::new(Engine::new(1, None).unwrap());
        let asks = |start| starts_with(CLOCK, LOWERED, IMPORTS, INSTANCE, start);
        let starts = |start| starts_with("", "", "", "", start);
        for (component, is_ahead) in [
            (asks("(drop (call $now))"), false),
            (asks(""), true),
            (starts(LOOP), false),
            (starts("(i64.store (i32.const 8) (i64.const 1))"), true),
            (starts("(drop (memory.grow (i32.const 1)))"), false),
            (starts("unreachable"), false),
            (starts(&"(i32.store (i32.const 8) (i32.const 1))".repeat(400)), false),
            (with_memory("(memory 64)"), true),
            (with_memory("(memory 65)"), false),
            (with_memories(4), true),
            (with_memories(5), false),
        ] {
            let loaded = loaded(&engine, component.as_bytes()).await;
            assert_eq!(prepared(&loaded).await.is_some(), is_ahead, "{component}");
            assert_eq!(loaded.is_unfit.load(Ordering::Relaxed), !is_ahead);
        }
        assert_eq!(in_use(&engine), 0);
    }
}
