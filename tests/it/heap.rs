//! The first call of a built-in tool does with the memory that it has from the start.

use clawhost::registry::BUILT_IN_COMPONENTS;
use clawhost::sandbox::bindings::{Guest, GuestPre};
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, OptLevel, ResourceLimiter, Store};

/// Made of more than such a room holds, and long to compile.
const INTERPRETERS: [&str; 3] = ["js", "python", "code"];

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

#[tokio::test]
async fn the_first_call_of_a_built_in_tool_grows_no_memory() {
    let mut config = Config::new();
    config.cranelift_opt_level(OptLevel::None);
    let engine = Engine::new(&config).unwrap();
    let no_arguments = "{}".to_owned();
    for artifact in BUILT_IN_COMPONENTS.iter().filter(|it| !INTERPRETERS.contains(&it.name)) {
        let guest = linked(&engine, artifact.bytes);
        let (mut store, instance) = fresh(&guest).await;
        let tools = instance.claw_tool_tool().call_describe(&mut store).await.unwrap();
        assert_eq!(store.data().0, 0, "{} describes its tools", artifact.name);
        for tool in tools {
            let (mut store, instance) = fresh(&guest).await;
            // It names what is missing, or traps where it would reach out: either has used the heap.
            let _ =
                instance.claw_tool_tool().call_call(&mut store, &tool.name, &no_arguments).await;
            assert_eq!(store.data().0, 0, "{}", tool.name);
        }
    }
}
