//! The first call of a built-in tool does with the memory that it has from the start.

use clawhost::registry::BUILT_IN_COMPONENTS;
use clawhost::sandbox::bindings::{Guest, GuestPre};
use clawhost_tests::Guest as Hostile;
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, OptLevel, ResourceLimiter, Store};

/// Made of more than such a room holds, and long to compile.
const INTERPRETERS: [&str; 3] = ["js", "python", "code"];

/// Tools that are called at least.
const TOOLS_MIN: usize = 25;

/// How often a memory grew beyond what it began with.
#[derive(Default)]
struct Growths(usize);

impl ResourceLimiter for Growths {
    fn memory_growing(
        &mut self,
        current: usize,
        _desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        self.0 += usize::from(current > 0);
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        _desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(true)
    }
}

/// Links a component to a host on which every import traps.
fn linked(engine: &Engine, bytes: &[u8]) -> GuestPre<Growths> {
    let component = Component::from_binary(engine, bytes).unwrap();
    let mut linker = Linker::new(engine);
    linker.define_unknown_imports_as_traps(&component).unwrap();
    GuestPre::new(linker.instantiate_pre(&component).unwrap()).unwrap()
}

async fn fresh(guest: &GuestPre<Growths>) -> (Store<Growths>, Guest) {
    let mut store = Store::new(guest.engine(), Growths::default());
    store.limiter(|growths| growths);
    let instance = guest.instantiate_async(&mut store).await.unwrap();
    (store, instance)
}

fn engine() -> Engine {
    let mut config = Config::new();
    config.cranelift_opt_level(OptLevel::None);
    Engine::new(&config).unwrap()
}

/// Calls a tool without arguments, and returns how often the memory grew. The tool names what is missing, or asks for
/// what no host here gives it: either has used the heap.
async fn growths(guest: &GuestPre<Growths>, tool: &str) -> usize {
    let (mut store, instance) = fresh(guest).await;
    let called = instance.claw_tool_tool().call_call(&mut store, tool, &"{}".to_owned()).await;
    if let Err(error) = called {
        assert!(format!("{error:?}").contains("unknown import"), "{tool}: {error:?}");
    }
    store.data().0
}

#[tokio::test]
async fn a_memory_that_grows_is_counted() {
    let guest = Hostile::read("searches-memory");
    let guest = linked(&engine(), &guest.wasm());
    assert_eq!(growths(&guest, "searches-memory").await, 1);
}

#[tokio::test]
async fn the_first_call_of_a_built_in_tool_grows_no_memory() {
    let engine = engine();
    let mut called = 0;
    for artifact in BUILT_IN_COMPONENTS.iter().filter(|it| !INTERPRETERS.contains(&it.name)) {
        let guest = linked(&engine, artifact.bytes);
        let (mut store, instance) = fresh(&guest).await;
        let tools = instance.claw_tool_tool().call_describe(&mut store).await.unwrap();
        assert_eq!(store.data().0, 0, "{} describes its tools", artifact.name);
        for tool in tools {
            assert_eq!(growths(&guest, &tool.name).await, 0, "{}", tool.name);
            called += 1;
        }
    }
    assert!(called >= TOOLS_MIN, "only {called} tools");
}
