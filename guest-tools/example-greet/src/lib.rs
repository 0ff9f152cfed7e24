//! The smallest useful tool: `cargo build --release --target wasm32-unknown-unknown`.

use claw_tool::{Text, ToolError};

/// Arguments of `greet`.
#[claw_tool::input]
struct Greet {
    /// Who to greet.
    name: String,
}

fn greet(args: &Greet) -> Result<Text, ToolError> {
    if args.name.trim().is_empty() {
        return Err(ToolError::invalid_args("name is blank; give the name of someone to greet"));
    }
    Ok(Text(format!("Hello, {}!", args.name)))
}

claw_tool::export! {
    /// Greets someone by name.
    greet [read_only, idempotent, closed_world],
}
