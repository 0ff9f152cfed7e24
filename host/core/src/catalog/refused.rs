//! What is not served, and why.

use crate::limits::ERROR_TEXT_BYTES_MAX;
use crate::manifest::DocumentError;
use crate::{truncate, visible};

/// A source of tools that could not be used, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The file or document.
    pub source: String,
    /// The reason, and what would be right.
    pub reason: String,
    /// The tool that is not served for it, by any of its names, where it is about one.
    pub tool: Option<String>,
    /// Its MCP server is at fault, and may yet offer it.
    pub is_upstream: bool,
    /// Every problem of its documents, where it is refused for these.
    pub problems: Vec<DocumentError>,
}

impl Refused {
    /// Returns a refusal whose texts are one line, short, and safe to show: they may quote a
    /// file.
    pub fn new(source: &str, reason: &str) -> Self {
        let short = |text: &str| visible::line(truncate::text(text, ERROR_TEXT_BYTES_MAX));
        let (source, reason) = (short(source), short(reason));
        Self { source, reason, tool: None, is_upstream: false, problems: Vec::new() }
    }

    /// Returns a refusal for every problem of documents, whose reason is the first.
    pub fn wrong(source: &str, problems: Vec<DocumentError>) -> Self {
        let first = problems.first().map(DocumentError::one_line).unwrap_or_default();
        let reason = match problems.len() {
            0 | 1 => first,
            all => format!("{first}; and {} more: `clawhost validate` shows them", all - 1),
        };
        Self { problems, ..Self::new(source, &reason) }
    }

    /// Returns it as the reason why `tool` is not served.
    #[must_use]
    pub fn of(self, tool: &str) -> Self {
        Self { tool: Some(tool.to_owned()), ..self }
    }

    /// Returns it as something that its MCP server is at fault for.
    #[must_use]
    pub fn upstream(self) -> Self {
        Self { is_upstream: true, ..self }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "refused: {}: {}", self.source, self.reason)
    }
}
