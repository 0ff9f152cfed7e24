//! Splitting into fields by `IFS`.

/// One field: as text, and as a pattern for file names.
#[derive(Debug, Default)]
pub(super) struct Field {
    pub(super) text: String,
    pub(super) pattern: String,
    /// Whether the pattern may match more than itself.
    pub(super) magic: bool,
}

/// Fields as they are put together.
pub(super) struct Fields<'a> {
    separators: &'a str,
    done: Vec<Field>,
    current: Option<Field>,
    /// Blanks ended a field: the separator after them belongs to the same end.
    after_blank: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn new(separators: &'a str) -> Self {
        Self { separators, done: Vec::new(), current: None, after_blank: false }
    }

    /// Adds text that is not split; even an empty one makes a field where it is quoted.
    pub(super) fn push(&mut self, text: &str, quoted: bool) {
        if text.is_empty() && !quoted {
            return;
        }
        self.after_blank = false;
        let field = self.current.get_or_insert_default();
        field.text.push_str(text);
        if quoted {
            escape(text, &mut field.pattern);
        } else {
            field.pattern.push_str(text);
            field.magic |= text.contains(['*', '?', '[']);
        }
    }

    /// Adds text that is split.
    pub(super) fn split(&mut self, text: &str) {
        let mut letters = [0; 4];
        for c in text.chars() {
            if !self.separators.contains(c) {
                self.push(c.encode_utf8(&mut letters), false);
            } else if matches!(c, ' ' | '\t' | '\n') {
                self.after_blank |= self.current.is_some();
                self.end();
            } else {
                if !self.after_blank {
                    self.current.get_or_insert_default();
                }
                self.end();
                self.after_blank = false;
            }
        }
    }

    /// Ends the field that is being made.
    pub(super) fn end(&mut self) {
        self.done.extend(self.current.take());
    }

    pub(super) fn finish(mut self) -> Vec<Field> {
        self.end();
        self.done
    }
}

/// Adds `text` to a pattern so that it stands for itself.
pub(super) fn escape(text: &str, pattern: &mut String) {
    for c in text.chars() {
        if "\\*?[]-!^".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(separators: &str, text: &str) -> Vec<String> {
        let mut fields = Fields::new(separators);
        fields.split(text);
        fields.finish().into_iter().map(|field| field.text).collect()
    }

    #[test]
    fn blanks_join_and_other_separators_do_not() {
        assert_eq!(split(" \t\n", "  a  b\n"), ["a", "b"]);
        assert_eq!(split(":", "a::b:"), ["a", "", "b"]);
        assert_eq!(split(": ", " a : b : : c"), ["a", "b", "", "c"]);
        assert_eq!(split("", "a b"), ["a b"]);
        assert!(split(" ", "   ").is_empty());
    }
}
