//! What one policy has searched, for what, and what happens with what is found.

/// The check of the input's form.
pub const INPUT_VALIDATION: &str = "input-validation";
/// The check for text that instructs the model.
pub const PROMPT_INJECTION: &str = "prompt-injection";

/// What happens with what was found, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// It is recorded.
    Log,
    /// It is recorded, and the operator is told.
    Warn,
    /// It is taken out; of arguments, only where they are recorded.
    Redact,
    /// The call, or its result, goes no further.
    Block,
}

/// What one policy has arguments and results searched for. The default is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Screen {
    /// What arguments have to look like.
    pub validation: Validation,
    /// What happens with text that tries to instruct the model, in arguments and in results.
    pub injection: Option<Action>,
    /// Where credentials are looked for, and what happens with them.
    pub secrets: Option<Scanning>,
}

/// What arguments have to look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Validation {
    /// The most bytes they may have, as serialised JSON.
    pub bytes_max: Option<u64>,
    /// Refuse NUL characters, in names and values.
    pub null_bytes: bool,
    /// Report characters that cannot be seen, or look like an ordinary space.
    pub whitespace: bool,
}

/// Where credentials are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scanning {
    /// In arguments.
    pub input: bool,
    /// In results.
    pub output: bool,
    /// What happens with them.
    pub action: Action,
}
