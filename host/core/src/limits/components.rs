//! Components, what they say of their tools, and what schemas may cost.

limits! {
    COMPONENTS;
    /// A `.wasm` or `.wat` file.
    COMPONENT_BYTES_MAX: u64 = 67_108_864;
    /// A component in text form: it is parsed in the host, which takes 75 times as much memory. People write tens of
    /// kilobytes; what is longer was generated, and can be made binary.
    COMPONENT_TEXT_BYTES_MAX: usize = 1_048_576;
    /// Compiled code on disk, of all hosts that share the folder: what was used longest ago makes room, and is compiled again when it is needed.
    CODE_CACHE_BYTES_MAX: u64 = 4_294_967_296;
    /// Memory of the program that compiles one component.
    COMPILER_MEMORY_MB: u64 = 4_096;
    /// Time of the program that compiles one component, at a low priority: the largest interpreter takes 10 s of a free core.
    COMPILER_TIMEOUT_MS: u64 = 600_000;
    /// Compiled code of one component.
    COMPILED_BYTES_MAX: u64 = 536_870_912;
    /// Functions in one component: what compiling takes is bounded first by what there is to compile.
    COMPONENT_FUNCTIONS_MAX: u64 = 100_000;
    /// The body of one function in a component.
    COMPONENT_FUNCTION_BYTES_MAX: u64 = 1_048_576;
    /// Blocks nested in one function: a switch of a large interpreter has hundreds.
    COMPONENT_BLOCK_DEPTH_MAX: u64 = 5_000;
    /// Locals times blocks, summed over all functions: what the compiler's time grows with.
    COMPONENT_WORK_MAX: u64 = 500_000_000;
    /// Types in one component, nested ones included.
    COMPONENT_TYPES_MAX: u64 = 100_000;
    /// Modules and components nested inside one component, and their depth.
    COMPONENT_NESTING_MAX: u64 = 100;
    /// Imports and exports of one component or core module, not of what is nested in it: an interpreter exports thousands.
    COMPONENT_NAMES_MAX: usize = 100_000;
    /// Tools one component may describe.
    COMPONENT_TOOLS_MAX: usize = 256;
    /// Memory that the schemas of all tools of one component take, parts counted as in `JSON_NODES_MAX`: a small file
    /// can describe gigabytes, and the host holds five copies as long as the file is there. Tens of thousands of properties.
    COMPONENT_SCHEMAS_BYTES_MAX: usize = 16_777_216;
    /// What a component says about its functions in `package-docs`.
    COMPONENT_DOCS_BYTES_MAX: usize = 262_144;
    /// Types, fields and cases of one exported function, written out: each is a part of its JSON Schemas.
    FUNCTION_TYPES_MAX: usize = 2_000;
    /// Values in the arguments of one call of an exported function: each takes 40 bytes and more in the host.
    FUNCTION_VALUES_MAX: usize = 100_000;
    /// Bytes one call of an exported function may lift out, as the engine counts them: a list of flags takes up to 24 times as much in the host.
    FUNCTION_CALL_BYTES_MAX: usize = 4_194_304;
    /// Name of a tool as MCP clients see it.
    TOOL_NAME_BYTES_MAX: usize = 64;
    /// Description of a tool.
    TOOL_DESCRIPTION_BYTES_MAX: usize = 16_384;
    /// One JSON Schema of a tool.
    TOOL_SCHEMA_BYTES_MAX: usize = 262_144;
    /// Subschemas that one check of a value may evaluate: about a second of work, beside the threads that serve.
    SCHEMA_EVALUATIONS_MAX: u64 = 20_000_000;
    /// One compiled `pattern` of a JSON Schema: matching costs by its size.
    SCHEMA_PATTERN_BYTES_MAX: u64 = 262_144;
    /// All compiled patterns of one JSON Schema.
    SCHEMA_PATTERNS_BYTES_MAX: u64 = 524_288;
    /// Values in one JSON Schema, each of which may be a subschema: compiling is bounded before it starts.
    SCHEMA_SUBSCHEMAS_MAX: usize = 10_000;
    /// Subschemas for one and the same value within each other (`anyOf` in `$ref` in `allOf` …).
    SCHEMA_NESTING_MAX: usize = 128;
    /// All mismatches of one value, which a validator makes before it hands out any.
    SCHEMA_MISMATCHES_BYTES_MAX: u64 = 67_108_864;
    /// All compiled patterns of the documents of one load: compiling them takes well under a second.
    MANIFEST_PATTERNS_BYTES_MAX: u64 = 4_194_304;
}
