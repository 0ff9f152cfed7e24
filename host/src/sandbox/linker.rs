//! The one linker: every interface that any tool may import, and nothing else.
//!
//! Linking an interface grants nothing. A component reaches only what it imports, its
//! imports were checked against its profile when it was loaded (`core::imports`), and each
//! privileged call looks at the grants again.

use wasmtime::component::{HasData, HasSelf, Linker, ResourceTable};
use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView as _};
use wasmtime_wasi::p2::bindings::{cli, clocks, random};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView as _};
use wasmtime_wasi_io::bindings::wasi::io;

use super::bindings::claw::host;
use super::state::CallState;

/// Returns a linker over the capabilities of a [`CallState`].
///
/// # Errors
/// Only where two interfaces would have the same name.
pub fn link(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<CallState>> {
    let mut linker = Linker::new(engine);
    inert(&mut linker)?;
    super::fs::add_to_linker(&mut linker, CallState::fs_view)?;
    super::http::add_to_linker(&mut linker)?;
    host::process::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    host::secrets::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    host::provider::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    host::models::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    host::memory::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    host::tools::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    host::channels::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    Ok(linker)
}

/// Returns a linker that has the interfaces of WASI 0.3 too, where this build has them.
///
/// # Errors
/// As [`link`].
pub(crate) fn link_p3(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<CallState>> {
    #[cfg_attr(not(feature = "wasi-p3"), expect(unused_mut, reason = "nothing is added then"))]
    let mut linker = link(engine)?;
    #[cfg(feature = "wasi-p3")]
    super::p3::add_to_linker(&mut linker)?;
    Ok(linker)
}

/// Links what every tool may import: no power by itself, backed by nothing of the host's.
fn inert(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    type S = CallState;
    let l = linker;
    io::error::add_to_linker::<S, HasTable>(l, |s| s.ctx().table)?;
    io::poll::add_to_linker::<S, HasTable>(l, |s| s.ctx().table)?;
    io::streams::add_to_linker::<S, HasTable>(l, |s| s.ctx().table)?;
    clocks::wall_clock::add_to_linker::<S, WasiClocks>(l, S::clocks)?;
    clocks::monotonic_clock::add_to_linker::<S, WasiClocks>(l, S::clocks)?;
    random::random::add_to_linker::<S, WasiRandom>(l, S::random)?;
    random::insecure::add_to_linker::<S, WasiRandom>(l, S::random)?;
    random::insecure_seed::add_to_linker::<S, WasiRandom>(l, S::random)?;
    cli::exit::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::environment::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::stdin::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::stdout::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::stderr::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::terminal_input::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::terminal_output::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::terminal_stdin::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::terminal_stdout::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::terminal_stderr::add_to_linker::<S, WasiCli>(l, S::cli)?;
    host::log::add_to_linker::<S, HasSelf<S>>(l, |state| state)?;
    host::progress::add_to_linker::<S, HasSelf<S>>(l, |state| state)?;
    host::cancellation::add_to_linker::<S, HasSelf<S>>(l, |state| state)
}

struct HasTable;

impl HasData for HasTable {
    type Data<'a> = &'a mut ResourceTable;
}
