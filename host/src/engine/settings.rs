//! How the engine is set up: the pool of instances, metering, and what WebAssembly is allowed.

use clawhost_core::limits::{
    GUEST_CORE_INSTANCES_MAX, GUEST_MEMORIES_MAX, GUEST_MEMORY_CEILING_MB, GUEST_MEMORY_KEPT_BYTES,
    GUEST_STACK_BYTES, GUEST_TABLE_ELEMENTS_MAX,
};
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Slots given back to the kernel at a time where memory is not kept.
const DECOMMIT_BATCH: usize = 16;
/// Stack a call runs on: the guest's, and room for host calls.
const CALL_STACK_BYTES: usize = 2 << 20;
/// Memories and tables in the pool for each call that may run.
const SLOTS_PER_CALL: usize = 4;
/// Core instances in the pool for each call that may run: many tools are one or two modules,
/// an interpreter may be forty.
const CORE_INSTANCES_PER_CALL: usize = 16;

/// Stacks in the pool for each call whose guest may run tasks beside each other: each of its core instances
/// may have one that waits. A hostile one takes more, and a call that finds none left is told to try again.
const STACKS_PER_CALL: usize = 16;

/// Returns an engine with a pool for `instances_max` instances at once, or, where the address space
/// for a pool cannot be had (`ulimit -v`, strict overcommit), one that allocates on demand. Tasks
/// `beside` each other, as of WASI 0.3, make every host call dearer.
pub(super) fn engine(instances_max: usize, beside: bool) -> wasmtime::Result<(Engine, Allocator)> {
    let mut config = base(beside);
    let mut pool = pool(instances_max);
    if beside {
        pool.total_stacks(count(instances_max * STACKS_PER_CALL));
    }
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    match Engine::new(&config) {
        Ok(engine) => Ok((engine, Allocator::Pool)),
        Err(error) => {
            tracing::warn!("no instance pool, each call allocates its own memory: {error:#}");
            Engine::new(&base(beside)).map(|engine| (engine, Allocator::OnDemand))
        }
    }
}

/// Returns an engine that compiles as those of [`engine`] do, and has no room for instances.
pub(super) fn compiling(beside: bool) -> wasmtime::Result<Engine> {
    Engine::new(&base(beside))
}

/// Where instances get their memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocator {
    /// From slots reserved at start.
    Pool,
    /// From the kernel, each call anew.
    OnDemand,
}

fn base(beside: bool) -> Config {
    let mut config = Config::new();
    // A stack of each of many tasks at once: what they wrote is not kept for good.
    config.concurrency_support(beside).async_stack_zeroing(beside);
    // What is cancelled without waiting for it stays in queues of the engine that have no end.
    #[cfg(feature = "wasi-p3")]
    config.wasm_component_model_async(beside).wasm_component_model_more_async_builtins(false);
    config
        .wasm_component_model(true)
        .consume_fuel(true)
        .wasm_memory64(false)
        .wasm_relaxed_simd(false)
        .max_wasm_stack(GUEST_STACK_BYTES)
        .async_stack_size(CALL_STACK_BYTES)
        .memory_init_cow(true);
    config
}

fn pool(instances_max: usize) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    let memories = count(instances_max * SLOTS_PER_CALL);
    pool.total_component_instances(count(instances_max))
        .total_core_instances(count(instances_max * CORE_INSTANCES_PER_CALL))
        .total_memories(memories)
        .total_tables(memories)
        .total_stacks(count(instances_max))
        .max_core_instances_per_component(count(GUEST_CORE_INSTANCES_MAX))
        .max_memories_per_component(count(GUEST_MEMORIES_MAX))
        .max_tables_per_component(count(GUEST_MEMORIES_MAX))
        .max_memory_size(usize::try_from(GUEST_MEMORY_CEILING_MB << 20).unwrap_or(usize::MAX))
        .table_elements(GUEST_TABLE_ELEMENTS_MAX);
    if given_back().is_none() {
        pool.pagemap_scan(Enabled::Yes)
            .linear_memory_keep_resident(GUEST_MEMORY_KEPT_BYTES)
            .table_keep_resident(GUEST_MEMORY_KEPT_BYTES);
    } else {
        pool.pagemap_scan(Enabled::No).decommit_batch_size(DECOMMIT_BATCH);
    }
    pool
}

fn count(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Says why instances give their memory back between calls, where they cannot keep it: keeping it without
/// the scan is a blind memset; and with swap in use, 48.0.8 can carry a swapped-out page into the next
/// instance. Where swap cannot be read, there is some.
#[expect(clippy::disallowed_methods, reason = "it asks the system whether it swaps")]
pub(crate) fn given_back() -> Option<&'static str> {
    let swaps = || std::fs::read_to_string("/proc/swaps");
    if !PoolingAllocationConfig::is_pagemap_scan_available() {
        Some("the kernel cannot say which pages were written (Linux 6.7 can)")
    } else if swaps().is_ok_and(|text| text.lines().count() <= 1) {
        None
    } else {
        Some("there is swap")
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::{Instance, Module, Store, Trap};

    use super::*;

    /// Counts down from its argument.
    const COUNTS: &str = r#"(module (func (export "run") (param $n i32)
        (loop $more (br_if $more (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))))"#;
    /// Fuel is looked at where a loop begins anew: the last turn is not stopped midway.
    const TURN_FUEL: u64 = 5;

    #[cfg(feature = "wasi-p3")]
    #[tokio::test]
    async fn stacks_of_tasks_beside_each_other_are_given_back() {
        /// Calls itself as often as its argument says.
        const DEEP: &str = r#"(module (func $run (export "run") (param $n i32)
            (if (local.get $n) (then (call $run (i32.sub (local.get $n) (i32.const 1)))))))"#;
        let (engine, _) = engine(1, true).unwrap();
        let module = Module::new(&engine, wat::parse_str(DEEP).unwrap()).unwrap();
        let mut store = Store::new(&engine, ());
        store.set_fuel(1_000_000).unwrap();
        let instance = Instance::new_async(&mut store, &module, &[]).await.unwrap();
        let run = instance.get_typed_func::<i32, ()>(&mut store, "run").unwrap();
        run.call_async(&mut store, 1_000).await.unwrap();
        drop(store);
        let pool = engine.pooling_allocator_metrics().unwrap();
        assert_eq!(pool.unused_stack_bytes_resident(), Some(0));
    }

    #[tokio::test]
    async fn w5_one_amount_of_fuel_is_enough_and_one_less_is_not_each_time() {
        let (engine, _) = engine(1, false).unwrap();
        let module = Module::new(&engine, wat::parse_str(COUNTS).unwrap()).unwrap();
        let run = async |fuel: u64| {
            let mut store = Store::new(&engine, ());
            store.set_fuel(fuel).unwrap();
            let instance = Instance::new_async(&mut store, &module, &[]).await.unwrap();
            let run = instance.get_typed_func::<i32, ()>(&mut store, "run").unwrap();
            run.call_async(&mut store, 1_000).await.map(|()| fuel - store.get_fuel().unwrap())
        };
        let used = run(1_000_000).await.unwrap();
        let mut least = used;
        while run(least - 1).await.is_ok() {
            least -= 1;
        }
        assert!(used > 1_000 && used - least <= TURN_FUEL, "{used}, and {least} is enough");
        for _ in 0..3 {
            assert_eq!(run(1_000_000).await.unwrap(), used);
            assert!(run(least).await.is_ok());
            let error = run(least - 1).await.unwrap_err();
            assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::OutOfFuel));
        }
    }
}
