//! What a step's arguments are made of: values as they are written, and paths into what is there.
//!
//! A text is a path where its first word, up to the first dot, is a source: `input`, the key of an
//! earlier step, or `step_N`, which counts from 1. A text that looks like a path and starts at nothing
//! that is there is refused rather than taken for a text; `{literal: …}` is always the value itself.

use serde_json::Value;

use crate::contract::part;
use crate::limits::TOOL_OUTPUT_BYTES_MAX;
use crate::reply::json_bytes;

/// What the arguments of the composite are called.
const INPUT: &str = "input";
/// What steps are called by their number.
const STEP: &str = "step_";

/// What an argument is made of.
#[derive(Debug, Clone, PartialEq)]
pub enum Mapping {
    /// The value itself.
    Literal(Value),
    /// A list, item by item.
    List(Vec<Self>),
    /// A mapping, key by key.
    Object(Vec<(String, Self)>),
    /// Whatever a path leads to.
    Source(Source),
}

/// A path into what is there when a step begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The step whose output it starts at, from 0; the arguments where absent.
    step: Option<usize>,
    /// As it was written.
    text: String,
}

/// Why arguments cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unmade {
    /// The path that leads nowhere: nothing is ever `null` for being absent.
    #[error("there is no `{0}`")]
    Missing(String),
    /// No tool takes so much.
    #[error("its arguments would be more than {TOOL_OUTPUT_BYTES_MAX} bytes")]
    TooLarge,
}

impl Source {
    /// Reads a text that may be a path; `earlier` are the keys of the steps before. Nothing where it is
    /// a text like any other.
    ///
    /// # Errors
    /// What is wrong with what can only be meant as a path.
    pub fn read(text: &str, earlier: &[String]) -> Result<Option<Self>, String> {
        let (root, rest) = text.split_once('.').map_or((text, None), |(a, b)| (a, Some(b)));
        let number = root.strip_prefix(STEP).filter(|rest| is_number(rest));
        let by_number = || {
            let step = number?.parse::<usize>().ok()?.checked_sub(1)?;
            (step < earlier.len()).then_some(step)
        };
        let step = earlier.iter().position(|key| key == root).or_else(by_number);
        if step.is_none() && root != INPUT {
            let is_meant = number.is_some() || (rest.is_some() && is_path_like(text));
            return if is_meant { Err(unknown(root, earlier)) } else { Ok(None) };
        }
        if rest.is_some_and(|rest| rest.split('.').any(str::is_empty)) {
            return Err(format!("the path `{text}` has an empty part"));
        }
        Ok(Some(Self { step, text: text.to_owned() }))
    }

    fn find<'a>(&self, input: &'a Value, outputs: &'a [Option<Value>]) -> Option<&'a Value> {
        let root = match self.step {
            None => input,
            Some(step) => outputs.get(step)?.as_ref()?,
        };
        self.text.split('.').skip(1).try_fold(root, part)
    }
}

impl Mapping {
    /// Returns the value that it comes to, of the composite's arguments and what earlier steps gave. It
    /// is counted while it grows: one value may be named often.
    ///
    /// # Errors
    /// [`Unmade`].
    pub fn resolve(&self, input: &Value, outputs: &[Option<Value>]) -> Result<Value, Unmade> {
        self.within(&mut { TOOL_OUTPUT_BYTES_MAX }, input, outputs)
    }

    /// Takes what the value is long from `left_bytes`, before it is copied.
    fn within(
        &self,
        left_bytes: &mut usize,
        input: &Value,
        outputs: &[Option<Value>],
    ) -> Result<Value, Unmade> {
        let mut copy = |value: &Value| {
            *left_bytes = left_bytes.checked_sub(json_bytes(value)).ok_or(Unmade::TooLarge)?;
            Ok(value.clone())
        };
        match self {
            Self::Literal(value) => copy(value),
            Self::Source(source) => copy(
                source.find(input, outputs).ok_or_else(|| Unmade::Missing(source.text.clone()))?,
            ),
            Self::List(items) => {
                items.iter().map(|item| item.within(left_bytes, input, outputs)).collect()
            }
            Self::Object(entries) => entries
                .iter()
                .map(|(key, value)| Ok((key.clone(), value.within(left_bytes, input, outputs)?)))
                .collect(),
        }
    }

    /// Returns the paths in it.
    pub fn sources(&self) -> Vec<&Source> {
        match self {
            Self::Literal(_) => Vec::new(),
            Self::List(items) => items.iter().flat_map(Self::sources).collect(),
            Self::Object(entries) => entries.iter().flat_map(|(_, of)| of.sources()).collect(),
            Self::Source(source) => vec![source],
        }
    }

    /// Returns the steps whose outputs it needs, from 0.
    pub fn steps(&self) -> Vec<usize> {
        self.sources().into_iter().filter_map(|source| source.step).collect()
    }
}

/// Says whether `key` can be what a step's output is called: a word that means nothing else.
pub fn is_key(key: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_number_of_step = key.strip_prefix(STEP).is_some_and(is_number);
    key.starts_with(starts) && key.bytes().all(is_word) && key != INPUT && !is_number_of_step
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Words with dots between them and nothing else: `fetch.body`, and `report.txt` as well.
fn is_path_like(text: &str) -> bool {
    let is_word = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.split('.').all(is_word)
}

fn unknown(root: &str, earlier: &[String]) -> String {
    let known: Vec<&str> = [INPUT].into_iter().chain(earlier.iter().map(String::as_str)).collect();
    format!(
        "`{root}` is no source here: there are {}, and steps before by number, as `step_1`",
        known.join(", ")
    )
}
