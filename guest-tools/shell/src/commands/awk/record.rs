//! Records and fields.

use std::rc::Rc;

use super::run::Run;
use super::special;
use super::value::Value;
use crate::commands::lossy;
use crate::io::Input;
use crate::limits::FIELDS_MAX;
use crate::shell::Shell;
use crate::stop::{Done, failed};

/// The current record. Fields are split when one is first asked for.
#[derive(Debug, Default)]
pub(super) struct Record {
    whole: Value,
    fields: Vec<Value>,
    is_split: bool,
    /// A field was changed: the whole is to be put together anew.
    is_changed: bool,
}

impl Run<'_> {
    pub(super) fn set_record(&mut self, text: &str) {
        self.record = Record { whole: Value::Input(text.into()), ..Record::default() };
    }

    fn split_record(&mut self) -> Done<()> {
        if self.record.is_split {
            return Ok(());
        }
        let text = self.record.whole.as_text("%.6g");
        let separator = self.special_text(special::FS);
        let fields = self.split(&text, &separator, self.special_text(special::RS).is_empty())?;
        self.record.fields =
            fields.iter().map(|field| Value::Input(field.as_str().into())).collect();
        self.record.is_split = true;
        let count = self.record.fields.len();
        self.set_count(special::NF, count);
        Ok(())
    }

    /// Splits by a separator of `awk`: a blank means runs of blanks, one character itself,
    /// anything longer is an expression. `lines`: a line end separates as well.
    pub(super) fn split(&mut self, text: &str, separator: &str, lines: bool) -> Done<Vec<String>> {
        let owned = |parts: Vec<&str>| parts.into_iter().map(str::to_owned).collect::<Vec<_>>();
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let mut letters = separator.chars();
        Ok(match (letters.next(), letters.next()) {
            (Some(' '), None) => {
                owned(text.split([' ', '\t', '\n']).filter(|f| !f.is_empty()).collect())
            }
            (None, _) => text.chars().map(String::from).collect(),
            (Some(one), None) if one != '\\' => {
                owned(text.split(|c| c == one || lines && c == '\n').collect())
            }
            _ => {
                let both = format!("{separator}|\n");
                let regex = self.regex(if lines { &both } else { separator })?;
                let mut parts = Vec::new();
                let mut from = 0;
                for (start, end) in regex.all(text.as_bytes()) {
                    if start < end {
                        parts.push(text.get(from..start).unwrap_or_default().to_owned());
                        from = end;
                    }
                }
                parts.push(text.get(from..).unwrap_or_default().to_owned());
                parts
            }
        })
    }

    pub(super) fn field(&mut self, number: f64) -> Done<Value> {
        let at = index(number)?;
        if at == 0 {
            self.join_record()?;
            return Ok(self.record.whole.clone());
        }
        self.split_record()?;
        Ok(self.record.fields.get(at - 1).cloned().unwrap_or_default())
    }

    pub(super) fn set_field(&mut self, number: f64, value: Value) -> Done<()> {
        let at = index(number)?;
        if at == 0 {
            let text = value.as_text(&self.special_text(special::CONVFMT));
            self.set_record(&text);
            return Ok(());
        }
        self.split_record()?;
        if at > self.record.fields.len() {
            self.record.fields.resize(at, Value::Unset);
            self.set_count(special::NF, at);
        }
        if let Some(field) = self.record.fields.get_mut(at - 1) {
            *field = value;
        }
        self.record.is_changed = true;
        Ok(())
    }

    pub(super) fn field_count(&mut self) -> Done<()> {
        self.split_record()
    }

    /// `NF` was assigned: fields are dropped, or empty ones added.
    pub(super) fn resize_record(&mut self) -> Done<()> {
        let count = index(self.special_value(special::NF).number())?;
        self.split_record()?;
        self.record.fields.resize(count, Value::Unset);
        self.record.is_changed = true;
        self.set_count(special::NF, count);
        Ok(())
    }

    fn join_record(&mut self) -> Done<()> {
        if std::mem::take(&mut self.record.is_changed) {
            let separator = self.special_text(special::OFS);
            let format = self.special_text(special::CONVFMT);
            let fields: Vec<Rc<str>> =
                self.record.fields.iter().map(|field| field.as_text(&format)).collect();
            let whole = fields.join(&*separator);
            self.bounded(whole.len())?;
            self.record.whole = Value::Input(whole.into());
        }
        Ok(())
    }

    /// The next record of `input`, by `RS`.
    pub(super) fn read_record(&mut self, input: &Input) -> Done<Option<String>> {
        let separator = self.special_text(special::RS);
        let mut letters = separator.chars();
        match (letters.next(), letters.next()) {
            (None, _) => paragraph(input),
            (Some(one), None) if one.is_ascii() => {
                let end = u8::try_from(u32::from(one)).unwrap_or(b'\n');
                let Some(record) = input.until(end)? else { return Ok(None) };
                let record = record.strip_suffix(&[end]).unwrap_or(&record);
                // A last line end belongs to the file, not to its last record.
                Ok(Some(lossy(record)).filter(|text| end == b'\n' || text != "\n"))
            }
            _ => failed("RS takes one character, or none for paragraphs"),
        }
    }

    /// The next record of the operands; assignments among them are done on the way.
    pub(super) fn next_record(&mut self, shell: &mut Shell) -> Done<Option<String>> {
        loop {
            if self.input.is_none() && !self.open_next(shell)? {
                return Ok(None);
            }
            let Some(input) = self.input.clone() else { return Ok(None) };
            if let Some(text) = self.read_record(&input)? {
                self.step_count(special::NR);
                self.step_count(special::FNR);
                return Ok(Some(text));
            }
            self.input = None;
        }
    }

    fn open_next(&mut self, shell: &mut Shell) -> Done<bool> {
        while let Some(name) = self.operands.pop_front() {
            if let Some((variable, value)) = name.split_once('=')
                && crate::syntax::is_name(variable)
            {
                self.set_global(variable, value)?;
                continue;
            }
            self.opened = true;
            match shell.open(&name) {
                Ok(input) => {
                    self.input = Some(input);
                    self.set_special(special::FILENAME, Value::text(&name));
                    self.set_count(special::FNR, 0);
                    return Ok(true);
                }
                Err(error) => {
                    shell.complain(&format!("{name}: {}", error.0))?;
                    self.status = 2;
                }
            }
        }
        if !std::mem::replace(&mut self.opened, true) {
            self.input = Some(shell.stdin());
            return Ok(true);
        }
        Ok(false)
    }
}

/// Lines up to an empty one.
fn paragraph(input: &Input) -> Done<Option<String>> {
    let mut text = String::new();
    while let Some(line) = input.line()? {
        if line == b"\n" {
            if text.is_empty() {
                continue;
            }
            break;
        }
        text.push_str(&lossy(&line));
    }
    let text = text.strip_suffix('\n').unwrap_or(&text).to_owned();
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// The number of a field.
fn index(number: f64) -> Done<usize> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in range")]
    if (0.0..=FIELDS_MAX as f64).contains(&number) {
        Ok(number as usize)
    } else {
        failed(format!("there is no field {number}"))
    }
}
