//! The screens of all policies together, and the searches.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use super::filters::{Boundary, CheckAction, Filter, Wanted, check_of, kinds_of};
use super::found::{Counts, Screened};
use super::terms::{Action, INPUT_VALIDATION, PROMPT_INJECTION, Scanning, Screen, Validation};
use super::tokens::Tokens;
use super::walk::{self, Look};
use super::{find, injection, validation};
use crate::error::{CallError, Limit};
use crate::json::Length;
use crate::reply::ToolReply;

/// The screens of all policies together: of each check the strictest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Screens {
    bytes_max: Option<(u64, String)>,
    null_bytes: Option<String>,
    whitespace: Option<CheckAction>,
    injection: Option<CheckAction>,
    filters: BTreeMap<Boundary, Wanted>,
}

/// Returns what in `text` reads like instructions to a model, by the same table as the screens.
pub fn instructions(text: &str) -> Option<&'static str> {
    let mut first = None;
    injection::find(text, &mut |name| {
        first.get_or_insert(name);
    });
    first
}

/// Says whether `text`, which stands under the name `key`, is or holds what looks like a credential.
pub fn is_credential(key: &str, text: &str) -> bool {
    static WANTED: LazyLock<Wanted> = LazyLock::new(|| Wanted::all_of("secrets"));
    !find::find(Some(key), text, &WANTED, &Tokens::default()).is_empty()
}

impl Screens {
    /// Returns what `policies` ask for together.
    pub fn new<'a>(policies: impl Iterator<Item = (&'a str, &'a Screen)>) -> Self {
        let mut all = Self::default();
        for (policy, screen) in policies {
            all.add(policy, screen);
        }
        all
    }

    fn add(&mut self, policy: &str, screen: &Screen) {
        let Validation { bytes_max, null_bytes, whitespace } = screen.validation;
        if let Some(bytes) = bytes_max
            && self.bytes_max.as_ref().is_none_or(|(least, _)| bytes < *least)
        {
            self.bytes_max = Some((bytes, policy.to_owned()));
        }
        if null_bytes {
            self.null_bytes.get_or_insert_with(|| policy.to_owned());
        }
        CheckAction::strictest(&mut self.whitespace, policy, whitespace.then_some(Action::Warn));
        CheckAction::strictest(&mut self.injection, policy, screen.injection);
        if let Some(Scanning { input, output, action }) = screen.secrets {
            let boundaries = [(input, Boundary::Arguments), (output, Boundary::Result)];
            let boundaries = boundaries.iter().filter(|(is, _)| *is).map(|(_, at)| *at).collect();
            self.add_filter(policy, &Filter { kinds: kinds_of("secrets"), boundaries, action });
        }
    }

    /// Adds what `policy` wants looked for. What must not stay in arguments must not stay in the
    /// record of them either.
    pub fn add_filter(&mut self, policy: &str, filter: &Filter) {
        let Filter { kinds, boundaries, action } = filter;
        let hides = *action >= Action::Redact && boundaries.contains(&Boundary::Arguments);
        for at in boundaries.iter().copied().chain(hides.then_some(Boundary::Record)) {
            let wanted = self.filters.entry(at).or_default();
            kinds.iter().for_each(|kind| wanted.add(kind, policy, *action));
        }
    }

    /// Says whether there is nothing to do.
    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }

    /// Searches the arguments of a call, which stay as they are.
    pub fn input(&self, arguments: &Value) -> Screened<()> {
        let mut screened = Screened::clean(());
        self.validate(arguments, &mut screened);
        let texts = |look: &mut Look<'_>| walk::value(arguments, look);
        self.search_injection(&mut screened, texts);
        self.filter(Boundary::Arguments, &mut screened, &Tokens::default(), texts);
        screened
    }

    /// Searches the result of a call.
    pub fn output(&self, mut reply: ToolReply, tokens: &Tokens) -> Screened<ToolReply> {
        let mut screened = Screened::clean(());
        self.search_injection(&mut screened, |look| walk::reply(&mut reply, look));
        self.filter(Boundary::Result, &mut screened, tokens, |look| {
            walk::reply(&mut reply, look);
            walk::pieces(&mut reply, look);
        });
        let Screened { findings, blocked, .. } = screened;
        Screened { value: reply, findings, blocked }
    }

    /// Searches what is to be remembered.
    pub fn memory(&self, mut content: Value, tokens: &Tokens) -> Screened<Value> {
        let mut screened = Screened::clean(());
        let texts = |look: &mut Look<'_>| walk::rewrite(&mut content, look);
        self.filter(Boundary::Memory, &mut screened, tokens, texts);
        let Screened { findings, blocked, .. } = screened;
        Screened { value: content, findings, blocked }
    }

    /// Returns `error` as a caller and the record may have it: what results must not hold, and
    /// what would be refused in them, is taken out.
    pub fn error(&self, mut error: CallError, tokens: &Tokens) -> CallError {
        for wanted in
            [Boundary::Result, Boundary::Record].iter().filter_map(|at| self.filters.get(at))
        {
            let mut look = |key: Option<&str>, text: &str| hidden(key, text, wanted, tokens);
            walk::text(&mut error.message, &mut look);
            error.internal.iter_mut().for_each(|text| walk::text(text, &mut look));
            walk::rewrite_object(&mut error.data, &mut look);
        }
        error
    }

    /// Returns `value`, arguments or a result, as it may be recorded.
    pub fn recorded<'a>(&self, value: &'a Value, tokens: &Tokens) -> Cow<'a, Value> {
        let Some(wanted) = self.filters.get(&Boundary::Record) else { return Cow::Borrowed(value) };
        let mut value = value.clone();
        walk::rewrite(&mut value, &mut |key, text| hidden(key, text, wanted, tokens));
        Cow::Owned(value)
    }

    /// Has `texts` searched for what is wanted at a boundary.
    fn filter<T>(
        &self,
        at: Boundary,
        screened: &mut Screened<T>,
        tokens: &Tokens,
        texts: impl FnOnce(&mut Look<'_>),
    ) {
        let Some(wanted) = self.filters.get(&at) else { return };
        let mut counts = Counts::default();
        texts(&mut |key, text| {
            let mut hits = find::find(key, text, wanted, tokens);
            hits.iter().for_each(|hit| counts.see(hit.name));
            hits.retain(|hit| wanted.hides(hit.name));
            hits
        });
        for (name, times) in counts.0 {
            if let Some(asked) = wanted.get(name) {
                screened.note(check_of(name), asked, name, times);
            }
        }
    }

    fn search_injection<T>(&self, screened: &mut Screened<T>, texts: impl FnOnce(&mut Look<'_>)) {
        let Some(asked) = &self.injection else { return };
        for (name, times) in count(texts, injection::find).0 {
            screened.note(PROMPT_INJECTION, asked, name, times);
        }
    }

    fn validate<T>(&self, arguments: &Value, screened: &mut Screened<T>) {
        if let Some((bytes_max, policy)) = &self.bytes_max {
            let bytes = Length::of(arguments).plain as u64;
            if bytes > *bytes_max {
                let what = format!("{bytes} bytes, where {bytes_max} are taken");
                screened.refuse(policy, &what, Limit::SizeBytes);
            }
        }
        if let Some(policy) = &self.null_bytes
            && walk::any(arguments, |text| text.contains('\0'))
        {
            screened.refuse(policy, "a NUL character", Limit::NullBytes);
        }
        if let Some(asked) = &self.whitespace {
            let found = count(|look| walk::value(arguments, look), validation::unusual);
            for (name, times) in found.0 {
                screened.note(INPUT_VALIDATION, asked, name, times);
            }
        }
    }
}

/// Returns what is taken out of `text`.
fn hidden(key: Option<&str>, text: &str, wanted: &Wanted, tokens: &Tokens) -> Vec<find::Hit> {
    let mut hits = find::find(key, text, wanted, tokens);
    hits.retain(|hit| wanted.hides(hit.name));
    hits
}

/// Counts what `search` sees in `texts`, by its name.
fn count(
    texts: impl FnOnce(&mut Look<'_>),
    search: fn(&str, &mut dyn FnMut(&'static str)),
) -> Counts {
    let mut counts = Counts::default();
    texts(&mut |_, text| {
        search(text, &mut |name| counts.see(name));
        Vec::new()
    });
    counts
}
