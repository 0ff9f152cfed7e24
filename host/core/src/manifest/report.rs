//! A problem of a document as people are shown it: with the lines around it.
//!
//! Deliberately absent: colours and where it is printed; that is whoever renders it.

use std::fmt;

use miette::{
    Diagnostic, LabeledSpan, MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents,
};

use super::problem::{DocumentError, PRIMITIVE_NOT_FOUND};
use crate::visible;

/// A line of the text around a problem: a dozen rows of a terminal.
const LINE_SHOWN_BYTES_MAX: usize = 1_024;

/// A problem and the text around it, made visible.
#[derive(Debug)]
pub struct Report<'p> {
    problem: &'p DocumentError,
    excerpt: Option<Excerpt>,
}

impl DocumentError {
    /// Returns it to be printed with the lines around it.
    pub fn report(&self) -> Report<'_> {
        Report { problem: self, excerpt: Excerpt::around(self) }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem.reason)
    }
}

impl std::error::Error for Report<'_> {}

impl Diagnostic for Report<'_> {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let what = match self.problem.code {
            PRIMITIVE_NOT_FOUND => "error: something that is referred to is not there",
            _ => "error: this cannot be used as it is",
        };
        Some(Box::new(format!("{what} ({})", self.problem.code)))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.problem.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.excerpt.as_ref().map(|excerpt| excerpt as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let (offset_bytes, len_bytes) = self.excerpt.as_ref()?.marked;
        let label = LabeledSpan::new(Some("here".to_owned()), offset_bytes, len_bytes);
        Some(Box::new(std::iter::once(label)))
    }
}

/// The line of a problem, with the one before it and the one behind it.
#[derive(Debug)]
struct Excerpt {
    file: String,
    text: String,
    /// Which lines of the document stand before it.
    lines_before: usize,
    /// Where in its line the problem is, in characters of the document.
    column: usize,
    /// What is wrong of the text: where it begins, and how long it is.
    marked: (usize, usize),
}

impl Excerpt {
    /// Returns none where there is no text, or has lines that nobody reads: what renders them cannot point
    /// beyond column 65535.
    fn around(problem: &DocumentError) -> Option<Self> {
        let (source, (begin, len)) = (problem.source(), problem.span());
        let around = source.text.read_span(&(begin, len).into(), 1, 1).ok()?;
        let (first, end) = (around.span().offset(), around.span().offset() + around.span().len());
        // Made visible piece by piece: what is marked begins and ends elsewhere then.
        let shown = |from, to| {
            source.text.get(from..to).map(|text| visible::block(&text.replace("\r\n", "\n")))
        };
        let (before, marked) = (shown(first, begin)?, shown(begin, begin + len)?);
        let text = format!("{before}{marked}{}", shown(begin + len, end)?);
        let is_short = |line: &str| line.len() <= LINE_SHOWN_BYTES_MAX;
        (!text.is_empty() && text.lines().all(is_short)).then(|| Self {
            file: source.file.clone(),
            lines_before: around.line(),
            column: problem.column.saturating_sub(1),
            marked: (before.len(), marked.len()),
            text,
        })
    }
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let of = self.text.read_span(span, before, after)?;
        let (data, span, count) = (of.data(), *of.span(), of.line_count());
        let (line, name) = (self.lines_before + of.line(), self.file.clone());
        // Asked for nothing around it, it is asked where it stands.
        let column = if before == 0 { self.column } else { of.column() };
        Ok(Box::new(MietteSpanContents::new_named(name, data, span, line, column, count)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::node::Place;
    use super::super::problem::Source;
    use super::*;

    /// Returns the text that is shown of `text` around the first `x`, and what is marked in it.
    fn shown(text: &str) -> Option<(String, String)> {
        let at = Place::start(&Source::new(Path::new("t.yaml"), text));
        let at = Place { offset_bytes: text.find('x').unwrap(), len_bytes: 3, ..at };
        let problem = DocumentError::new(&at, 0, "wrong", "mend it");
        let Excerpt { text, marked: (begin, len), .. } = problem.report().excerpt?;
        let marked = text[begin..begin + len].to_owned();
        Some((text, marked))
    }

    #[test]
    fn what_is_hidden_is_shown_and_what_is_marked_stays_so() {
        let text = "a\nb: \u{1b}[2J\u{202e}\r\n\u{9b}\u{200b}c: x\u{7}y z\r\nd\re\nf";
        let (text, marked) = shown(text).unwrap();
        assert_eq!(marked, "x\\u{7}y");
        let expected = "b: \\u{1b}[2J\\u{202e}\n\\u{9b}\\u{200b}c: x\\u{7}y z\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(!text.contains('\r'), "{text:?}");
    }

    #[test]
    fn a_line_that_nobody_reads_is_not_shown() {
        let is_shown = |before: &str| {
            let text = format!("a: 1\n{before}x: 2\nc: 3\n");
            let at = Place::start(&Source::new(Path::new("t.yaml"), &text));
            let at = Place { offset_bytes: 5 + before.len(), len_bytes: 1, ..at };
            let problem = DocumentError::new(&at, 0, "wrong", "mend it");
            let report = problem.report();
            (report.source_code().is_some(), report.labels().is_some())
        };
        assert_eq!(is_shown(&" ".repeat(70)), (true, true));
        assert_eq!(is_shown(&" ".repeat(70_000)), (false, false));
        assert_eq!(is_shown(&"\u{7}".repeat(400)), (false, false));
    }
}
