//! Tools of the program that the host is part of: Rust code, beside the components.
//!
//! A native tool is on the one path like any other: schema, policy, approval, rates, time, filter,
//! record. One thing it is not: contained. It runs in the host's process with all that the process
//! may, and whatever shows what a tool may touch says so. So only the program can add one, through
//! [`HostBuilder::tool`](crate::HostBuilder::tool) and
//! [`HostBuilder::provider`](crate::HostBuilder::provider); no document and no file can.
//!
//! Deliberately absent: who calls, and the host. A tool has its arguments.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use clawhost_core::bridged::BridgedName;
use clawhost_core::catalog::{Annotations, ToolDefinition, ckp_name};
use clawhost_core::digest;
use serde_json::{Value, json};

/// A tool of the embedding program.
///
/// ```
/// use clawhost::{Tool, ToolError, async_trait};
/// use serde_json::{Value, json};
///
/// struct Double;
///
/// #[async_trait]
/// impl Tool for Double {
///     fn name(&self) -> &str {
///         "double"
///     }
///     fn description(&self) -> &str {
///         "Doubles a number."
///     }
///     fn parameters(&self) -> Value {
///         json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
///     }
///     async fn execute(&self, args: Value) -> Result<Value, ToolError> {
///         // The host has held the arguments against the schema.
///         let n = args["n"].as_i64().and_then(|n| n.checked_mul(2));
///         n.map(Value::from).ok_or_else(|| ToolError::InvalidArgs("too large".to_owned()))
///     }
/// }
/// ```
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns its name as clients see it: 1 to 63 of `a-z A-Z 0-9 _ -`.
    fn name(&self) -> &str;

    /// Returns what a model is told about it.
    fn description(&self) -> &str;

    /// Returns the JSON Schema of its arguments, an object.
    fn parameters(&self) -> Value;

    /// Returns what it says of itself. Rules trust it: it is the program's own word.
    fn annotations(&self) -> Annotations {
        Annotations::default()
    }

    /// Does the work, for arguments that match the schema. Dropped where it takes longer than the call
    /// may; a result of text is shown as text, any other as JSON.
    ///
    /// # Errors
    /// [`ToolError`], which the caller reads as the tool's own failure.
    async fn execute(&self, args: Value) -> Result<Value, ToolError>;
}

/// Several tools under one name: `weather` with `today` serves `weather__today`.
#[async_trait]
pub trait ToolProvider: Send + Sync {
    /// Returns the name that stands before those of its tools.
    fn namespace(&self) -> &str;

    /// Returns its tools by their own names. Asked when the host is built and at each reload.
    fn list_tools(&self) -> Vec<ToolDefinition>;

    /// Calls the tool that it lists as `name`, as [`Tool::execute`].
    ///
    /// # Errors
    /// As [`Tool::execute`].
    async fn call_tool(&self, name: &str, args: Value) -> Result<Value, ToolError>;
}

/// Why a native tool failed, in the words of `claw:tool/tool`. The text is for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// There is no such thing.
    #[error("not-found: {0}")]
    NotFound(String),
    /// The arguments match the schema and make no sense.
    #[error("invalid-args: {0}")]
    InvalidArgs(String),
    /// It did not work.
    #[error("execution-failed: {0}")]
    ExecutionFailed(String),
    /// A check of the tool's own refuses it.
    #[error("permission-denied: {0}")]
    PermissionDenied(String),
    /// A file that it needs is not there.
    #[error("file-not-found: {0}")]
    FileNotFound(String),
    /// A path leads where the tool does not go.
    #[error("invalid-path: {0}")]
    InvalidPath(String),
    /// Something that it waited for took too long.
    #[error("timeout: {0}")]
    Timeout(String),
}

impl ToolError {
    /// Returns the kind, as replies name it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "not-found",
            Self::InvalidArgs(_) => "invalid-args",
            Self::ExecutionFailed(_) => "execution-failed",
            Self::PermissionDenied(_) => "permission-denied",
            Self::FileNotFound(_) => "file-not-found",
            Self::InvalidPath(_) => "invalid-path",
            Self::Timeout(_) => "timeout",
        }
    }
}

/// What of the program has tools. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct NativeTools(Vec<Arc<dyn ToolProvider>>);

/// One tool of it.
pub(crate) struct Native {
    provider: Arc<dyn ToolProvider>,
    /// What its provider calls it.
    tool: String,
    /// What it said of it.
    pub(crate) definition: ToolDefinition,
    /// What policies and documents call it.
    pub(crate) ckp_name: String,
    /// The digest of the definition: the code is the program's own.
    pub(crate) digest: String,
}

impl NativeTools {
    pub(crate) fn add_tool(&mut self, tool: impl Tool + 'static) {
        self.0.push(Arc::new(Alone(tool)));
    }

    pub(crate) fn add_provider(&mut self, provider: impl ToolProvider + 'static) {
        self.0.push(Arc::new(provider));
    }

    /// Returns every tool as it is to be served.
    ///
    /// # Errors
    /// Which definition or name is none that can be served, and why.
    pub(crate) fn list(&self) -> Result<Vec<Native>, String> {
        let all = self.0.iter().map(|provider| {
            let tools = provider.list_tools().into_iter();
            tools.map(|tool| Native::new(provider, tool)).collect::<Vec<_>>()
        });
        all.flatten().collect()
    }
}

impl Native {
    fn new(provider: &Arc<dyn ToolProvider>, own: ToolDefinition) -> Result<Self, String> {
        let of = provider.namespace();
        let name = match of {
            "" => BridgedName { mcp: own.name.clone(), ckp: ckp_name(&own.name) },
            of => BridgedName::of_server(of, &own.name)?,
        };
        let definition = ToolDefinition { name: name.mcp, ..own.clone() };
        let digest = digest::of_json(&json!(definition));
        let provider = Arc::clone(provider);
        Ok(Self { provider, tool: own.name, definition, ckp_name: name.ckp, digest })
    }

    /// Returns who has it; nothing where it stands alone.
    pub(crate) fn provider(&self) -> &str {
        self.provider.namespace()
    }

    pub(crate) async fn call(&self, args: Value) -> Result<Value, ToolError> {
        self.provider.call_tool(&self.tool, args).await
    }
}

/// A tool that is its own provider.
struct Alone<T>(T);

#[async_trait]
impl<T: Tool> ToolProvider for Alone<T> {
    fn namespace(&self) -> &str {
        ""
    }

    fn list_tools(&self) -> Vec<ToolDefinition> {
        vec![ToolDefinition {
            annotations: self.0.annotations(),
            ..ToolDefinition::new(self.0.name(), self.0.description(), self.0.parameters())
        }]
    }

    async fn call_tool(&self, _name: &str, args: Value) -> Result<Value, ToolError> {
        self.0.execute(args).await
    }
}

impl fmt::Debug for NativeTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|provider| provider.namespace())).finish()
    }
}

clawhost_core::shows!(Native { tool });
