//! What metering costs, and how late a timeout is. Times are in microseconds.

use std::time::{Duration, Instant};

use clawhost_core::limits::FUEL_YIELD_INTERVAL;
use clawhost_tests::{Guest, TestHost, host};
use serde_json::{Value, json};
use wasmtime::{Config, Engine, Instance, Module, Store, TypedFunc};

use crate::bare::{FUEL, Way};
use crate::figures::Times;
use crate::{WORLD, linked_on};

/// Runs of each kernel each way.
const RUNS: usize = 15;
/// What a kernel is given: some milliseconds of work.
const WORK: i32 = 3_000_000;
/// Calls that are stopped, and what they are given.
const STOPPED: usize = 60;
const TIMEOUT: Duration = Duration::from_millis(20);

/// Loops of the kinds that metering costs most: nothing but turns, a byte at a time, calls.
const KERNELS: [(&str, &str); 3] = [
    (
        "a loop of nothing",
        r#"(module (func (export "run") (param $n i32) (result i32) (local $sum i32)
            (loop $more
                (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 31)) (local.get $n)))
                (br_if $more (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (local.get $sum)))"#,
    ),
    (
        "a scan of bytes",
        r#"(module (memory 1) (func (export "run") (param $n i32) (result i32) (local $sum i32)
            (loop $more
                (local.set $sum (i32.add (local.get $sum)
                    (i32.eq (i32.const 10) (i32.load8_u (i32.and (local.get $n) (i32.const 65535))))))
                (br_if $more (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (local.get $sum)))"#,
    ),
    (
        "recursion",
        r#"(module
            (func $fib (param $n i32) (result i32)
                (if (result i32) (i32.lt_u (local.get $n) (i32.const 2)) (then (local.get $n))
                    (else (i32.add (call $fib (i32.sub (local.get $n) (i32.const 1)))
                        (call $fib (i32.sub (local.get $n) (i32.const 2)))))))
            (func (export "run") (param i32) (result i32) (call $fib (i32.const 27))))"#,
    ),
];

/// Some milliseconds of work: 190 kB of JSON.
const JSON_IN_JAVASCRIPT: &str =
    "const all = Array.from({length: 4000}, (_, i) => ({id: i, name: 'the name of ' + i}));
JSON.parse(JSON.stringify(all)).length";

/// A kernel on one engine: unmetered, with fuel alone, or with fuel that yields as the host's does.
struct Kernel {
    store: Store<()>,
    run: TypedFunc<i32, i32>,
}

impl Kernel {
    fn new(text: &str, metered: bool, yields: bool) -> Self {
        let engine = Engine::new(Config::new().consume_fuel(metered)).expect("an engine");
        let module = Module::new(&engine, text).expect("a module");
        let mut store = Store::new(&engine, ());
        if metered {
            store.set_fuel(FUEL).expect("fuel");
            store.fuel_async_yield_interval(yields.then_some(FUEL_YIELD_INTERVAL)).expect("fuel");
        }
        let instance = Instance::new_async(&mut store, &module, &[]);
        let instance = WORLD.runtime.block_on(instance).expect("an instance");
        let run = instance.get_typed_func(&mut store, "run").expect("the function");
        Self { store, run }
    }

    fn time(&mut self) -> Duration {
        let started = Instant::now();
        WORLD.runtime.block_on(self.run.call_async(&mut self.store, WORK)).expect("a number");
        started.elapsed()
    }
}

/// Each kernel unmetered, with fuel alone, and with fuel and its yields, in turns.
pub(crate) fn metering() -> Value {
    let of = |(name, text): (&str, &str)| {
        let ways = [("unmetered", false, false), ("fuel alone", true, false), ("ours", true, true)];
        let mut kernels = ways.map(|(_, metered, yields)| Kernel::new(text, metered, yields));
        let mut times = ways.map(|_| Times::default());
        for _ in 0..RUNS {
            kernels.iter_mut().zip(&mut times).for_each(|(kernel, times)| times.add(kernel.time()));
        }
        let shown = ways.iter().zip(&times).map(|((way, ..), times)| (*way, times.shown()));
        (name.to_owned(), Value::from_iter(shown))
    };
    Value::from_iter(KERNELS.map(of))
}

/// What yields cost an interpreter, whose guest is real code: a fresh one each time that writes and reads JSON.
pub(crate) fn javascript() -> Value {
    if !cfg!(feature = "interpreters") {
        return json!({});
    }
    let ways = [("fuel alone", Way::FuelAlone), ("ours", Way::Metered)];
    let host = WORLD.runtime.block_on(TestHost::builder().only(&["js-exec"]).build());
    let engines = ways.map(|(_, way)| linked_on(&host, "js_exec", way));
    let program = json!({"code": JSON_IN_JAVASCRIPT}).to_string();
    let mut times = ways.map(|_| Times::default());
    for _ in 0..RUNS {
        for (engine, times) in engines.iter().zip(&mut times) {
            let started = Instant::now();
            WORLD.runtime.block_on(engine.call("js_exec", &program));
            times.add(started.elapsed());
        }
    }
    ways.iter().zip(&times).map(|((way, _), times)| (*way, times.shown())).collect()
}

/// How long after its time a call ends that spins, and one that fills memory by one instruction after the other.
pub(crate) fn lateness() -> Value {
    let guests = ["spin", "bulk-fill"].map(Guest::read);
    let builder = guests.iter().fold(TestHost::builder(), |builder, guest| builder.guest(guest));
    let built = WORLD.runtime.block_on(builder.build());
    let of = |guest: &Guest| {
        let mut times = Times::default();
        for _ in 0..STOPPED {
            let call = host::call_within(guest.tool(), json!({}), TIMEOUT);
            let started = Instant::now();
            let ended = WORLD.runtime.block_on(built.host().call(call));
            assert_eq!(ended.expect_err("it is stopped").kind.name(), "timeout");
            times.add(started.elapsed().saturating_sub(TIMEOUT));
        }
        (guest.tool().to_owned(), json!({"p50": times.at(50), "max": times.at(100)}))
    };
    Value::from_iter(guests.iter().map(of))
}
