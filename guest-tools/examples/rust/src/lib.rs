//! The function of example-tool.wit.

wit_bindgen::generate!({ path: "example-tool.wit" });

struct Tool;

impl Guest for Tool {
    fn example_tool(text: String) -> u32 {
        u32::try_from(text.split_whitespace().count()).unwrap_or(u32::MAX)
    }
}

export!(Tool);
