//! The two attributes of `claw-tool`: what a struct needs to be a tool's arguments or result.
//!
//! They only put derives in front of an item, so that a tool crate depends on `claw-tool` alone
//! and cannot forget to close its schema. There is deliberately no parsing of the item here.

use proc_macro::TokenStream;

/// Makes a struct or enum usable in a tool's arguments.
///
/// Derives `Debug`, `Deserialize` and `JsonSchema`; unknown fields are refused, so the schema
/// is closed. Doc comments become the descriptions a model reads.
#[proc_macro_attribute]
pub fn input(_attribute: TokenStream, item: TokenStream) -> TokenStream {
    with_derives("::claw_tool::serde::Deserialize", item)
}

/// Makes a struct or enum usable in a tool's result.
///
/// Derives `Debug`, `Serialize` and `JsonSchema`; the schema is closed.
#[proc_macro_attribute]
pub fn output(_attribute: TokenStream, item: TokenStream) -> TokenStream {
    with_derives("::claw_tool::serde::Serialize", item)
}

fn with_derives(direction: &str, item: TokenStream) -> TokenStream {
    let attributes = format!(
        "#[derive(Debug, {direction}, ::claw_tool::schemars::JsonSchema)]
         #[serde(crate = \"::claw_tool::serde\", deny_unknown_fields)]
         #[schemars(crate = \"::claw_tool::schemars\")]"
    );
    match attributes.parse::<TokenStream>() {
        Ok(mut tokens) => {
            tokens.extend(item);
            tokens
        }
        Err(error) => format!("compile_error!({:?});", error.to_string()).parse().unwrap_or(item),
    }
}
