//! Generated from `wit/`: the exports of a tool component, and the host traits of `claw:host`.
#![expect(
    missing_docs,
    clippy::expect_used, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing,
    clippy::cast_possible_truncation, clippy::needless_pass_by_value, clippy::use_self,
    clippy::or_fun_call, clippy::manual_let_else,
    reason = "generated code; the WIT files carry the documentation"
)]

wasmtime::component::bindgen!({
    path: "../wit",
    world: "claw:tool/guest",
    imports: { default: async },
    exports: { default: async },
    with: {
        "wasi:io": wasmtime_wasi::p2::bindings::io,
        "wasi:clocks": wasmtime_wasi::p2::bindings::clocks,
        "wasi:random": wasmtime_wasi::p2::bindings::random,
        "wasi:filesystem": wasmtime_wasi::p2::bindings::filesystem,
        "wasi:http": wasmtime_wasi_http::p2::bindings::http,
    },
});
