//! What one document is, without loading anything around it.

use std::path::Path;

use super::node;
use super::primitive::read_document;
use super::problem::{DocumentError, Problems};
use crate::uri::Kind;

/// What a document says that it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentHead {
    /// Its kind; no Claw.
    pub kind: Kind,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.version`.
    pub version: Option<String>,
}

/// Says whether a document calls itself a Claw, whatever else may be wrong with it.
pub fn is_claw(document: &[u8]) -> bool {
    node::parse(Path::new(""), document).is_ok_and(|(_, root)| root.text(&["kind"]) == Some("Claw"))
}

/// Reads and checks one document by itself: its references are not followed.
///
/// # Errors
/// Every problem of the document; that it is a Claw, too, which is no primitive.
pub fn read_head(file: &Path, bytes: &[u8]) -> Result<DocumentHead, Vec<DocumentError>> {
    let mut problems = Problems::default();
    let head = read_document(file, bytes, &mut problems).and_then(|of| {
        let Some(kind) = of.kind else {
            let help = "one of the eleven kinds of primitive belongs here";
            problems.invalid(&of.source, of.at, "the document is a Claw", help);
            return None;
        };
        Some(DocumentHead { kind, name: of.name, version: of.version })
    });
    problems.finish(head)
}
