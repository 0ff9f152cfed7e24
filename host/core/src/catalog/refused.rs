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

/// How many others are named that are refused for the same reason.
const NAMES_TOLD_MAX: usize = 5;

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

    /// Returns a line for each reason in `all`, in their order: where several tools are refused for one, as those under
    /// a profile are whose folder is missing, it is told once, with their names.
    pub fn lines<'r>(all: impl Iterator<Item = &'r Self>) -> Vec<String> {
        let mut causes: Vec<(&str, &Self, Vec<&str>)> = Vec::new();
        for refused in all {
            let (name, cause) = refused.named().unwrap_or(("", refused.reason.as_str()));
            match causes.iter_mut().find(|(known, ..)| !name.is_empty() && *known == cause) {
                Some((.., others)) => others.push(name),
                None => causes.push((cause, refused, Vec::new())),
            }
        }
        causes.into_iter().map(|(_, first, others)| first.with(&others)).collect()
    }

    /// Returns the name of its tool and why that is refused, where the reason says both.
    fn named(&self) -> Option<(&str, &str)> {
        self.reason.strip_prefix("tool `")?.split_once("`: ")
    }

    fn with(&self, others: &[&str]) -> String {
        if others.is_empty() {
            return self.to_string();
        }
        let named = others.iter().take(NAMES_TOLD_MAX).map(|name| format!("`{name}`"));
        let names = named.collect::<Vec<_>>().join(", ");
        match others.len().saturating_sub(NAMES_TOLD_MAX) {
            0 => format!("{self}; likewise {names}"),
            more => format!("{self}; likewise {names} and {more} more"),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tools_are_refused_for_alike_is_told_once() {
        let gone = "profile `p`: open /gone: it is not there";
        let tool = |name: &str, why: &str| {
            Refused::new("the built-in component `c`", &format!("tool `{name}`: {why}")).of(name)
        };
        let broken = Refused::new("a.wasm", "it is broken");
        let all = [tool("a", gone), broken, tool("b", "it is no tool"), tool("c", gone)];
        assert_eq!(
            Refused::lines(all.iter()),
            [
                format!("refused: the built-in component `c`: tool `a`: {gone}; likewise `c`"),
                "refused: a.wasm: it is broken".to_owned(),
                "refused: the built-in component `c`: tool `b`: it is no tool".to_owned(),
            ]
        );
        let many = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| tool(name, gone));
        let lines = Refused::lines(many.iter());
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].ends_with("; likewise `b`, `c`, `d`, `e`, `f` and 2 more"), "{lines:?}");
    }
}
