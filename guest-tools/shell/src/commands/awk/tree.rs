//! What an `awk` program is once it is parsed.

/// A whole program.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) begin: Vec<Statement>,
    pub(super) rules: Vec<Rule>,
    pub(super) end: Vec<Statement>,
    pub(super) functions: Vec<Function>,
    /// Global variables: a name is its place here.
    pub(super) globals: Vec<String>,
    /// Whether there is an `END`, which reads input even without rules.
    pub(super) has_end: bool,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) pattern: Pattern,
    /// Absent: the record is printed.
    pub(super) body: Option<Vec<Statement>>,
}

#[derive(Debug)]
pub(super) enum Pattern {
    Always,
    When(Expression),
    /// From the first to the second.
    Range(Expression, Expression),
}

#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) parameters: Vec<String>,
    pub(super) body: Vec<Statement>,
}

#[derive(Debug)]
pub(super) enum Statement {
    Expression(Expression),
    Print {
        values: Vec<Expression>,
        to: Option<Target>,
    },
    Printf {
        values: Vec<Expression>,
        to: Option<Target>,
    },
    If(Expression, Vec<Self>, Vec<Self>),
    While(Expression, Vec<Self>),
    DoWhile(Vec<Self>, Expression),
    For {
        start: Option<Box<Self>>,
        condition: Option<Expression>,
        step: Option<Box<Self>>,
        body: Vec<Self>,
    },
    ForIn {
        variable: Place,
        array: Variable,
        body: Vec<Self>,
    },
    Block(Vec<Self>),
    Break,
    Continue,
    Next,
    NextFile,
    Exit(Option<Expression>),
    Return(Option<Expression>),
    Delete(Variable, Option<Vec<Expression>>),
}

/// Where `print` writes, if not to standard output.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) append: bool,
    pub(super) name: Expression,
}

/// A variable by its place: of the program, or of the running function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variable {
    Global(usize),
    Local(usize),
}

/// What can be assigned to.
#[derive(Debug)]
pub(super) enum Place {
    Variable(Variable),
    Field(Box<Expression>),
    Element(Variable, Vec<Expression>),
}

#[derive(Debug)]
pub(super) enum Expression {
    Number(f64),
    Text(String),
    /// `/…/` by itself matches the record.
    Regex(String),
    Place(Place),
    Assign(Place, Box<Self>),
    /// `+=` and so on.
    Update(Place, Operator, Box<Self>),
    /// `++` and `--`: by how much, and whether the value is the one after.
    Step(Place, f64, bool),
    Conditional(Box<Self>, Box<Self>, Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    Not(Box<Self>),
    Negative(Box<Self>),
    Positive(Box<Self>),
    Arithmetic(Operator, Box<Self>, Box<Self>),
    Compare(Comparison, Box<Self>, Box<Self>),
    Concat(Box<Self>, Box<Self>),
    Match {
        negated: bool,
        text: Box<Self>,
        regex: Box<Self>,
    },
    In(Vec<Self>, Variable),
    Builtin(String, Vec<Self>),
    Call(usize, Vec<Self>),
    /// `getline [place] [< file]`.
    Getline {
        place: Option<Box<Place>>,
        file: Option<Box<Self>>,
    },
    /// `(a, b)` before `in`.
    Group(Vec<Self>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
}
