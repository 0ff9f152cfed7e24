//! The contract of `wit/`, as generated code. Nothing is written by hand here.
//!
//! The whole world is bound, and what a tool does not reach vanishes when it is linked: the
//! import list of a component is exactly what its code uses.

wit_bindgen::generate!({
    path: "../../wit",
    world: "guest",
    generate_all,
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "::claw_tool::bindings",
});
