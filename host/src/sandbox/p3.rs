//! WASI 0.3 for guests, beside 0.2 in one linker: the same clocks, random numbers, standard streams,
//! files and requests, under the same grants, bounds and records.
//!
//! Files are ours (`super::fs`); streams and requests are the engine's over those of the call, so a
//! request passes `super::http`. What still runs when a function has answered ends with the call.
//!
//! Deliberately absent: sockets, as of 0.2, and recordings: tasks may take another order the next time.

use clawhost_core::limits::RESOURCES_MAX;
use wasmtime::Store;
use wasmtime::component::Linker;

use super::state::CallState;

/// Links what WASI 0.3 has, but for sockets.
///
/// # Errors
/// Only where two interfaces would have the same name.
pub(super) fn add_to_linker(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p3::cli::add_to_linker(linker)?;
    wasmtime_wasi::p3::clocks::add_to_linker(linker)?;
    wasmtime_wasi::p3::random::add_to_linker(linker)?;
    wasmtime_wasi_http::p3::add_to_linker(linker)?;
    super::fs::p3::add_to_linker(linker, CallState::fs_view)
}

/// Bounds the tasks, streams and futures of a guest that runs them beside each other, if it may: each of
/// them has an entry in this one table, also while the host works for it. Its own calls leave its event loop.
pub(super) fn bound(store: &mut Store<CallState>) {
    let Some(table) = store.concurrent_resource_table() else { return };
    table.set_max_capacity(RESOURCES_MAX);
    store.data_mut().tools.run_beside();
    store.data().tape.give_up("it is of WASI 0.3, whose tasks may take another order");
}
