//! The execution of an `awk` program.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use super::record::Record;
use super::tree::{Expression, Pattern, Program, Rule, Statement, Target, Variable};
use super::value::{Value, number_text};
use super::{SPECIAL, special};
use crate::commands::regex::Regex;
use crate::io::{Input, Sink};
use crate::limits::VALUE_BYTES_MAX;
use crate::shell::Shell;
use crate::stop::{Done, Fault, Stop};

/// An array: keys in the order of their bytes, so that every run is the same.
pub(super) type Array = Rc<std::cell::RefCell<BTreeMap<Rc<str>, Value>>>;

/// What a variable holds.
#[derive(Debug, Clone)]
pub(super) enum Cell {
    Value(Value),
    Array(Array),
}

impl Default for Cell {
    fn default() -> Self {
        Self::Value(Value::Unset)
    }
}

/// How a statement ends.
pub(super) enum Flow {
    On,
    Break,
    Continue,
    Next,
    NextFile,
    Exit,
    Return(Value),
}

pub(super) struct Run<'p> {
    pub(super) program: &'p Program,
    pub(super) globals: Vec<Cell>,
    /// Variables of the functions that run, the innermost last.
    pub(super) frames: Vec<Vec<Cell>>,
    pub(super) record: Record,
    pub(super) operands: VecDeque<String>,
    pub(super) input: Option<Input>,
    pub(super) opened: bool,
    pub(super) status: i32,
    in_range: Vec<bool>,
    pub(super) regexes: HashMap<String, Rc<Regex>>,
    pub(super) readers: HashMap<String, Input>,
    writers: HashMap<String, Sink>,
    pub(super) seed: u64,
    /// A function said `exit`.
    pub(super) exiting: bool,
}

impl<'p> Run<'p> {
    pub(super) fn new(program: &'p Program, operands: Vec<String>) -> Self {
        let mut run = Self {
            program,
            globals: program.globals.iter().map(|_| Cell::default()).collect(),
            frames: Vec::new(),
            record: Record::default(),
            operands: operands.into(),
            input: None,
            opened: false,
            status: 0,
            in_range: vec![false; program.rules.len()],
            regexes: HashMap::new(),
            readers: HashMap::new(),
            writers: HashMap::new(),
            seed: 1,
            exiting: false,
        };
        for (place, text) in [
            (special::FS, " "),
            (special::OFS, " "),
            (special::ORS, "\n"),
            (special::RS, "\n"),
            (special::SUBSEP, "\u{1c}"),
            (special::CONVFMT, "%.6g"),
            (special::OFMT, "%.6g"),
            (special::FILENAME, ""),
        ] {
            run.set_special(place, Value::text(text));
        }
        run.set_special(special::RLENGTH, Value::Number(-1.0));
        run
    }

    pub(super) fn set_special(&mut self, place: usize, value: Value) {
        if let Some(cell) = self.globals.get_mut(place) {
            *cell = Cell::Value(value);
        }
    }

    pub(super) fn special_value(&self, place: usize) -> Value {
        match self.globals.get(place) {
            Some(Cell::Value(value)) => value.clone(),
            _ => Value::Unset,
        }
    }

    pub(super) fn special_text(&self, place: usize) -> Rc<str> {
        self.special_value(place).as_text("%.6g")
    }

    pub(super) fn set_count(&mut self, place: usize, count: usize) {
        // Counts are far below what a float holds exactly.
        self.set_special(place, Value::Number(count as f64));
    }

    pub(super) fn step_count(&mut self, place: usize) {
        let count = self.special_value(place).number() + 1.0;
        self.set_special(place, Value::Number(count));
    }

    pub(super) fn set_element(&mut self, place: usize, key: &str, value: &str) {
        if let Ok(array) = self.array(Variable::Global(place)) {
            array.borrow_mut().insert(key.into(), Value::Input(value.into()));
        }
    }

    /// Assigns from the command line; backslash sequences are read.
    pub(super) fn set_global(&mut self, name: &str, text: &str) -> Done<()> {
        let value = Value::Input(super::lexer::string(text).into());
        let place = self.program.globals.iter().position(|own| own == name);
        debug_assert!(SPECIAL.len() <= self.program.globals.len());
        // A variable that the program does not name cannot matter to it.
        place.map_or(Ok(()), |place| self.assign_variable(Variable::Global(place), value))
    }

    pub(super) fn bounded(&self, bytes: usize) -> Done<()> {
        if bytes > VALUE_BYTES_MAX {
            let why = format!("awk: a text has more than {VALUE_BYTES_MAX} bytes");
            return Err(Fault::Stop(Stop::Fatal(why)));
        }
        Ok(())
    }

    pub(super) fn all(&mut self, shell: &mut Shell) -> Done {
        let program = self.program;
        let ended = matches!(self.statements(shell, &program.begin)?, Flow::Exit);
        if !ended && (!program.rules.is_empty() || program.has_end) {
            self.records(shell)?;
        }
        self.exiting = false;
        self.statements(shell, &program.end)?;
        Ok(self.status)
    }

    fn records(&mut self, shell: &mut Shell) -> Done<()> {
        let rules: &'p [Rule] = &self.program.rules;
        while let Some(text) = self.next_record(shell)? {
            shell.tick()?;
            self.set_record(&text);
            for (at, rule) in rules.iter().enumerate() {
                if !self.selects(shell, at, &rule.pattern)? {
                    continue;
                }
                let flow = match &rule.body {
                    Some(body) => self.statements(shell, body)?,
                    None => self.print(shell, &[], None).map(|()| Flow::On)?,
                };
                match flow {
                    Flow::Next => break,
                    Flow::NextFile => {
                        self.input = None;
                        break;
                    }
                    Flow::Exit => return Ok(()),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn selects(&mut self, shell: &mut Shell, at: usize, pattern: &'p Pattern) -> Done<bool> {
        match pattern {
            Pattern::Always => Ok(true),
            Pattern::When(condition) => Ok(self.value(shell, condition)?.truth()),
            Pattern::Range(first, second) => {
                let inside = self.in_range.get(at).copied().unwrap_or(false);
                if !inside && !self.value(shell, first)?.truth() {
                    return Ok(false);
                }
                let over = self.value(shell, second)?.truth();
                if let Some(range) = self.in_range.get_mut(at) {
                    *range = !over;
                }
                Ok(true)
            }
        }
    }

    pub(super) fn statements(
        &mut self,
        shell: &mut Shell,
        statements: &'p [Statement],
    ) -> Done<Flow> {
        for statement in statements {
            match self.statement(shell, statement)? {
                Flow::On => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::On)
    }

    fn statement(&mut self, shell: &mut Shell, statement: &'p Statement) -> Done<Flow> {
        shell.tick()?;
        match statement {
            Statement::Expression(expression) => {
                self.value(shell, expression)?;
            }
            Statement::Print { values, to } => self.print(shell, values, to.as_ref())?,
            Statement::Printf { values, to } => {
                let text = self.formatted(shell, values)?;
                self.write(shell, &text, to.as_ref())?;
            }
            Statement::If(condition, yes, no) => {
                let branch = if self.value(shell, condition)?.truth() { yes } else { no };
                return self.statements(shell, branch);
            }
            Statement::Block(body) => return self.statements(shell, body),
            Statement::Break => return Ok(Flow::Break),
            Statement::Continue => return Ok(Flow::Continue),
            Statement::Next => return Ok(Flow::Next),
            Statement::NextFile => return Ok(Flow::NextFile),
            Statement::Exit(status) => {
                if let Some(status) = status {
                    self.status = status_of(self.value(shell, status)?.number());
                }
                return Ok(Flow::Exit);
            }
            Statement::Return(value) => {
                let value = value.as_ref().map_or(Ok(Value::Unset), |v| self.value(shell, v))?;
                return Ok(Flow::Return(value));
            }
            Statement::Delete(array, keys) => {
                let array = self.array(*array)?;
                match keys {
                    None => array.borrow_mut().clear(),
                    Some(keys) => {
                        let key = self.key(shell, keys)?;
                        array.borrow_mut().remove(&key);
                    }
                }
            }
            looped => return self.looped(shell, looped),
        }
        Ok(if self.exiting { Flow::Exit } else { Flow::On })
    }

    fn looped(&mut self, shell: &mut Shell, statement: &'p Statement) -> Done<Flow> {
        match statement {
            Statement::While(condition, body) => {
                while self.value(shell, condition)?.truth() {
                    if let Some(flow) = left(self.statements(shell, body)?) {
                        return Ok(flow);
                    }
                    shell.tick()?;
                }
            }
            Statement::DoWhile(body, condition) => loop {
                if let Some(flow) = left(self.statements(shell, body)?) {
                    return Ok(flow);
                }
                shell.tick()?;
                if !self.value(shell, condition)?.truth() {
                    break;
                }
            },
            Statement::For { start, condition, step, body } => {
                if let Some(start) = start {
                    self.statement(shell, start)?;
                }
                while condition
                    .as_ref()
                    .map_or(Ok(true), |c| self.value(shell, c).map(|v| v.truth()))?
                {
                    if let Some(flow) = left(self.statements(shell, body)?) {
                        return Ok(flow);
                    }
                    shell.tick()?;
                    if let Some(step) = step {
                        self.statement(shell, step)?;
                    }
                }
            }
            Statement::ForIn { variable, array, body } => {
                let keys: Vec<Rc<str>> = self.array(*array)?.borrow().keys().cloned().collect();
                for key in ordered(keys) {
                    self.assign(shell, variable, Value::Input(key))?;
                    if let Some(flow) = left(self.statements(shell, body)?) {
                        return Ok(flow);
                    }
                }
            }
            _ => {}
        }
        Ok(Flow::On)
    }

    fn print(
        &mut self,
        shell: &mut Shell,
        values: &'p [Expression],
        to: Option<&'p Target>,
    ) -> Done<()> {
        let format = self.special_text(special::OFMT);
        let mut line = String::new();
        if values.is_empty() {
            line.push_str(&self.field(0.0)?.as_text(&format));
        }
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                line.push_str(&self.special_text(special::OFS));
            }
            line.push_str(&self.value(shell, value)?.as_text(&format));
        }
        line.push_str(&self.special_text(special::ORS));
        self.write(shell, line.as_bytes(), to)
    }

    fn write(&mut self, shell: &mut Shell, bytes: &[u8], to: Option<&'p Target>) -> Done<()> {
        let Some(target) = to else { return Ok(shell.out(bytes)?) };
        let name = self.value(shell, &target.name)?.as_text("%.6g");
        match &*name {
            "/dev/stdout" | "-" => return Ok(shell.out(bytes)?),
            "/dev/stderr" => return Ok(shell.say(&String::from_utf8_lossy(bytes))?),
            "/dev/null" => return Ok(()),
            _ => {}
        }
        let sink = match self.writers.get(&*name) {
            Some(sink) => sink.clone(),
            None => {
                let sink = shell.sink(&name, target.append)?;
                self.writers.insert(name.to_string(), sink.clone());
                sink
            }
        };
        Ok(sink.write(bytes)?)
    }

    pub(super) fn close(&mut self, name: &str) -> bool {
        self.readers.remove(name).is_some() | self.writers.remove(name).is_some()
    }
}

/// What a loop makes of how its body ended; `None` where it goes on.
fn left(flow: Flow) -> Option<Flow> {
    match flow {
        Flow::On | Flow::Continue => None,
        Flow::Break => Some(Flow::On),
        flow => Some(flow),
    }
}

/// Numbers in their order, before other keys: what most programs hope for.
fn ordered(mut keys: Vec<Rc<str>>) -> Vec<Rc<str>> {
    keys.sort_by(|left, right| match (left.parse::<f64>(), right.parse::<f64>()) {
        (Ok(l), Ok(r)) => l.total_cmp(&r),
        (Ok(_), Err(_)) => std::cmp::Ordering::Less,
        (Err(_), Ok(_)) => std::cmp::Ordering::Greater,
        (Err(_), Err(_)) => left.cmp(right),
    });
    keys
}

fn status_of(number: f64) -> i32 {
    let text = number_text(number.trunc(), "%d");
    text.parse::<i32>().map_or(2, |status| status & 255)
}
