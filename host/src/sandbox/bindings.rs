//! Generated from `wit/`: the exports of a tool component, and the host traits of `claw:host`.
#![expect(missing_docs, reason = "generated code; the WIT files carry the documentation")]

wasmtime::component::bindgen!({
    path: "../wit",
    world: "claw:tool/guest",
    imports: { default: async },
    exports: { default: async },
    // What is answered may be recorded.
    additional_derives: [serde::Serialize, serde::Deserialize],
    with: {
        "wasi:io": wasmtime_wasi::p2::bindings::io,
        "wasi:cli": wasmtime_wasi::p2::bindings::cli,
        "wasi:clocks": wasmtime_wasi::p2::bindings::clocks,
        "wasi:random": wasmtime_wasi::p2::bindings::random,
        "wasi:filesystem": wasmtime_wasi::p2::bindings::filesystem,
        "wasi:http": wasmtime_wasi_http::p2::bindings::http,
    },
});
