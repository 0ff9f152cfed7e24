//! The components of the bench on wasmtime alone.

use clawhost::registry::BUILT_IN_COMPONENTS;
use clawhost::sandbox::bindings::{Guest as Instance, GuestPre};
use clawhost_core::limits::{FUEL_YIELD_INTERVAL, GUEST_MEMORY_KEPT_BYTES};
use clawhost_tests::Guest;
use wasmtime::component::{Component, Linker};
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store,
};

/// Fuel of a metered call: more than any here uses.
pub(crate) const FUEL: u64 = 1 << 40;

/// What is done beside what has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Nothing: a pool that keeps its memory, and everything linked ahead.
    Best,
    /// The pool, and fuel with its yields.
    Metered,
    /// The pool, and fuel that never yields.
    FuelAlone,
    /// Memory from the kernel for each call.
    OnDemand,
    /// The pool, and a new linker for each call.
    Relinked,
}

impl Way {
    fn is_metered(self) -> bool {
        matches!(self, Self::Metered | Self::FuelAlone)
    }
}

/// A component on an engine of its own.
pub(crate) struct Bare<T: 'static> {
    engine: Engine,
    component: Component,
    pre: GuestPre<T>,
    link: fn(&Engine) -> Linker<T>,
    state: Box<dyn Fn() -> T + Send + Sync>,
    way: Way,
}

impl<T: Send + 'static> Bare<T> {
    pub(crate) fn new(
        tool: &str,
        way: Way,
        link: fn(&Engine) -> Linker<T>,
        state: impl Fn() -> T + Send + Sync + 'static,
    ) -> Self {
        let mut config = Config::new();
        config.consume_fuel(way.is_metered());
        if way != Way::OnDemand {
            config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool()));
        }
        let engine = Engine::new(&config).expect("an engine");
        let component = Component::from_binary(&engine, &bytes(tool)).expect("a component");
        let pre = link(&engine).instantiate_pre(&component).expect("linked");
        let pre = GuestPre::new(pre).expect("the world");
        Self { engine, component, pre, link, state: Box::new(state), way }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: &String) {
        let mut store = Store::new(&self.engine, (self.state)());
        if self.way.is_metered() {
            let yields = (self.way == Way::Metered).then_some(FUEL_YIELD_INTERVAL);
            store.set_fuel(FUEL).expect("fuel");
            store.fuel_async_yield_interval(yields).expect("fuel");
        }
        let instance = match self.way {
            Way::Relinked => {
                let linker = (self.link)(&self.engine);
                Instance::instantiate_async(&mut store, &self.component, &linker).await
            }
            _ => self.pre.instantiate_async(&mut store).await,
        };
        let instance = instance.expect("an instance");
        let answer = instance.claw_tool_tool().call_call(&mut store, tool, arguments).await;
        assert!(answer.expect("no trap").is_ok());
    }
}

fn pool() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    if PoolingAllocationConfig::is_pagemap_scan_available() {
        pool.pagemap_scan(Enabled::Yes)
            .linear_memory_keep_resident(GUEST_MEMORY_KEPT_BYTES)
            .table_keep_resident(GUEST_MEMORY_KEPT_BYTES);
    }
    pool
}

fn bytes(tool: &str) -> Vec<u8> {
    match tool {
        "read_file" => built_in("file-io").to_vec(),
        "js_exec" => built_in("js").to_vec(),
        other => Guest::read(other).wasm(),
    }
}

/// Returns a built-in component.
pub(crate) fn built_in(name: &str) -> &'static [u8] {
    let found = BUILT_IN_COMPONENTS.iter().find(|artifact| artifact.name == name);
    found.expect("the component").bytes
}
