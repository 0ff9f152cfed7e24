//! Generated from the WIT of `wasi:filesystem`, with its resources mapped to ours.

wasmtime::component::bindgen!({
    path: [
        "../wit/deps/wasi-io",
        "../wit/deps/wasi-clocks",
        "../wit/deps/wasi-filesystem",
    ],
    world: "wasi:filesystem/imports",
    imports: {
        // Those that move many bytes or wait for the disk.
        "wasi:filesystem/types.[method]descriptor.read": async | trappable,
        "wasi:filesystem/types.[method]descriptor.sync": async | trappable,
        "wasi:filesystem/types.[method]descriptor.sync-data": async | trappable,
        "wasi:filesystem/types.[method]descriptor.write": async | trappable,
        default: trappable,
    },
    trappable_error_type: {
        "wasi:filesystem/types.error-code" => crate::sandbox::fs::HostFault,
    },
    with: {
        "wasi:io": wasmtime_wasi_io::bindings::wasi::io,
        "wasi:clocks": wasmtime_wasi::p2::bindings::clocks,
        "wasi:filesystem/types.descriptor": crate::sandbox::fs::Node,
        "wasi:filesystem/types.directory-entry-stream": crate::sandbox::fs::Listing,
    },
});
