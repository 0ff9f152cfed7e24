//! Loading components: whatever a file holds, the answer is a tool or a reason, and it comes soon.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arbitrary::Unstructured;
use clawhost::engine::Engine;
use clawhost_core::imports;
use tokio::runtime::Runtime;
use wasm_smith::{Component, Config, Module};
use wit_component::dummy_module;
use wit_parser::{LiftLowerAbi, ManglingAndAbi};

use super::world::World;

/// What a module may do before it is stopped by its own code: most end well before the host's limit.
const FUEL: u32 = 10_000;
const HANGS: Duration = Duration::from_secs(15);

/// Reads `data` as a file, or, after a byte 1 or 2, as the choices that make a tool of a module or
/// any component.
pub fn run(data: &[u8]) {
    let made = match data.split_first() {
        Some((1, choices)) => tool(choices),
        Some((2, choices)) => component(choices),
        _ => Some(data.to_vec()),
    };
    if let Some(bytes) = made {
        load(bytes);
    }
}

fn load(bytes: Vec<u8>) {
    static HOST: OnceLock<(Runtime, Arc<Engine>)> = OnceLock::new();
    let (runtime, engine) = HOST.get_or_init(|| {
        let engine = Engine::new(2, None).expect("this machine runs WebAssembly");
        (Runtime::new().expect("it has threads"), Arc::new(engine))
    });
    let work = async { tokio::time::timeout(HANGS, engine.load(bytes)).await };
    match runtime.block_on(work).expect("loading hangs") {
        Ok(loaded) => {
            assert!(!loaded.definitions.is_empty());
            let imports = loaded.imports.iter().map(String::as_str);
            assert_eq!(imports::servable(imports), Ok(()));
        }
        Err(error) => {
            let text = error.to_string();
            assert!(!text.is_empty() && text.len() < 4_096, "{text}");
            // The compiler's thread died: a defect, even if the host went on.
            assert!(!text.contains("the compiler failed"), "{text}");
        }
    }
}

/// A module with the shape of a tool and any code.
fn tool(choices: &[u8]) -> Option<Vec<u8>> {
    static SHAPE: OnceLock<(World, Vec<u8>)> = OnceLock::new();
    let (world, shape) = SHAPE.get_or_init(|| {
        let world = World::with(&["claw:host/log@0.1.0", "wasi:random/random@0.2.12"]);
        let mangling = ManglingAndAbi::Legacy(LiftLowerAbi::Sync);
        let shape = dummy_module(&world.resolve, world.id, mangling);
        (world, shape)
    });
    let config = Config { module_shape: Some(shape.clone()), ..config() };
    let mut module = Module::new(config, &mut Unstructured::new(choices)).ok()?;
    module.ensure_termination(FUEL).ok()?;
    world.component(module.to_bytes())
}

fn component(choices: &[u8]) -> Option<Vec<u8>> {
    Some(Component::new(config(), &mut Unstructured::new(choices)).ok()?.to_bytes())
}

/// What wasm-smith makes: everything that the host compiles, and some of what it refuses.
fn config() -> Config {
    Config { max_memories: 2, max_tables: 2, threads_enabled: false, ..Config::default() }
}
