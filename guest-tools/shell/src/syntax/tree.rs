//! What a script is once it is parsed.

use std::cell::RefCell;
use std::rc::Rc;

/// Commands that run one after the other.
pub(crate) type List = Vec<AndOr>;

/// Pipelines joined by `&&` and `||`.
#[derive(Debug)]
pub(crate) struct AndOr {
    pub(crate) first: Pipeline,
    pub(crate) rest: Vec<(Join, Pipeline)>,
}

/// When the next pipeline runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Join {
    And,
    Or,
}

/// Commands, each reading what the one before it wrote.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) negated: bool,
    pub(crate) stages: Vec<Command>,
}

#[derive(Debug)]
pub(crate) enum Command {
    Simple(Simple),
    Compound { body: Compound, redirects: Vec<Redirect> },
    Function { name: String, body: Rc<Self> },
}

#[derive(Debug, Default)]
pub(crate) struct Simple {
    pub(crate) assigns: Vec<(String, Word)>,
    pub(crate) words: Vec<Word>,
    pub(crate) redirects: Vec<Redirect>,
}

#[derive(Debug)]
pub(crate) enum Compound {
    Group(List),
    Subshell(List),
    If {
        branches: Vec<(List, List)>,
        otherwise: Option<List>,
    },
    /// `words` is absent in `for x; do`, which goes over the parameters.
    For {
        name: String,
        words: Option<Vec<Word>>,
        body: List,
    },
    /// `until` turns the condition round.
    While {
        until: bool,
        condition: List,
        body: List,
    },
    Case {
        word: Word,
        arms: Vec<(Vec<Word>, List)>,
    },
}

#[derive(Debug)]
pub(crate) struct Redirect {
    /// The descriptor, where one is written.
    pub(crate) fd: Option<u32>,
    pub(crate) action: Action,
}

#[derive(Debug)]
pub(crate) enum Action {
    Read(Word),
    Write(Word),
    Append(Word),
    /// `<&` and `>&`: a number, or `-` to close.
    Copy {
        word: Word,
        output: bool,
    },
    /// Filled in at the end of the line that names it.
    Here(Rc<RefCell<Word>>),
}

/// Parts that become one or more fields.
#[derive(Debug, Default, Clone)]
pub(crate) struct Word(pub(crate) Vec<Part>);

#[derive(Debug, Clone)]
pub(crate) enum Part {
    Text(String),
    Quoted(String),
    Parameter { name: String, operation: Operation, quoted: bool },
    Command { list: Rc<List>, quoted: bool },
    Arithmetic { expression: Word, quoted: bool },
}

/// What is done with a parameter's value. `colon`: an empty value counts as none.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Value,
    Length,
    Default {
        colon: bool,
        word: Word,
    },
    Assign {
        colon: bool,
        word: Word,
    },
    Demand {
        colon: bool,
        word: Word,
    },
    Alternative {
        colon: bool,
        word: Word,
    },
    /// `#` `##` `%` `%%`: without the shortest or longest match at one end.
    Trim {
        suffix: bool,
        longest: bool,
        pattern: Word,
    },
}
