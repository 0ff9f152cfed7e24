//! Tools of the embedding program, made of a closure.

use clawhost::{Tool, ToolError, async_trait};
use serde_json::{Value, json};

/// A tool that takes any arguments; what it does is the closure.
struct Native<F>(&'static str, F);

#[async_trait]
impl<F, A> Tool for Native<F>
where
    F: Fn() -> A + Send + Sync,
    A: Future<Output = Value> + Send,
{
    fn name(&self) -> &str {
        self.0
    }

    fn description(&self) -> &str {
        "Does what the test says."
    }

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {"path": {"type": "string"}}})
    }

    async fn execute(&self, _: Value) -> Result<Value, ToolError> {
        Ok(self.1().await)
    }
}

/// Returns the tool `name`, each call of which answers what `run` returns.
pub fn native<F, A>(name: &'static str, run: F) -> impl Tool + 'static
where
    F: Fn() -> A + Send + Sync + 'static,
    A: Future<Output = Value> + Send + 'static,
{
    Native(name, run)
}
