//! Values of expressions, and what can be assigned to.

use std::rc::Rc;

use super::run::{Array, Cell, Flow, Run};
use super::special;
use super::tree::{Comparison, Expression, Function, Operator, Place, Variable};
use super::value::Value;
use crate::commands::regex::{Flavour, Regex};
use crate::limits::CALL_DEPTH_MAX;
use crate::shell::Shell;
use crate::stop::{Done, Fault, Stop, failed, usage};

/// Compiled expressions that are kept.
const REGEXES_MAX: usize = 200;

impl<'p> Run<'p> {
    fn cell(&mut self, variable: Variable) -> Option<&mut Cell> {
        match variable {
            Variable::Global(at) => self.globals.get_mut(at),
            Variable::Local(at) => self.frames.last_mut()?.get_mut(at),
        }
    }

    /// The array of a variable; one that was never used becomes one.
    pub(super) fn array(&mut self, variable: Variable) -> Done<Array> {
        match self.cell(variable) {
            Some(Cell::Array(array)) => Ok(Rc::clone(array)),
            Some(cell @ Cell::Value(Value::Unset)) => {
                let array = Array::default();
                *cell = Cell::Array(Rc::clone(&array));
                Ok(array)
            }
            _ => failed("a variable is used as an array"),
        }
    }

    pub(super) fn is_array(&mut self, variable: Variable) -> bool {
        matches!(self.cell(variable), Some(Cell::Array(_)))
    }

    /// The text of a subscript.
    pub(super) fn key(&mut self, shell: &mut Shell, keys: &'p [Expression]) -> Done<Rc<str>> {
        let format = self.special_text(special::CONVFMT);
        if let [one] = keys {
            return Ok(self.value(shell, one)?.as_text(&format));
        }
        let mut parts = Vec::new();
        for key in keys {
            parts.push(self.value(shell, key)?.as_text(&format));
        }
        Ok(parts.join(&*self.special_text(special::SUBSEP)).into())
    }

    fn read_place(&mut self, shell: &mut Shell, place: &'p Place) -> Done<Value> {
        match place {
            Place::Variable(variable) => {
                if *variable == Variable::Global(special::NF) {
                    self.field_count()?;
                }
                match self.cell(*variable) {
                    Some(Cell::Value(value)) => Ok(value.clone()),
                    Some(Cell::Array(_)) => failed("an array is used as a value"),
                    None => Ok(Value::Unset),
                }
            }
            Place::Field(number) => {
                let number = self.value(shell, number)?.number();
                self.field(number.trunc())
            }
            Place::Element(array, keys) => {
                let key = self.key(shell, keys)?;
                let array = self.array(*array)?;
                let value = array.borrow_mut().entry(key).or_default().clone();
                Ok(value)
            }
        }
    }

    pub(super) fn assign(&mut self, shell: &mut Shell, place: &'p Place, value: Value) -> Done<()> {
        match place {
            Place::Variable(variable) => self.assign_variable(*variable, value),
            Place::Field(number) => {
                let number = self.value(shell, number)?.number();
                self.set_field(number.trunc(), value)
            }
            Place::Element(array, keys) => {
                let key = self.key(shell, keys)?;
                self.array(*array)?.borrow_mut().insert(key, value);
                Ok(())
            }
        }
    }

    pub(super) fn assign_variable(&mut self, variable: Variable, value: Value) -> Done<()> {
        match self.cell(variable) {
            Some(Cell::Array(_)) => return failed("an array is used as a value"),
            Some(cell) => *cell = Cell::Value(value),
            None => {}
        }
        match variable {
            Variable::Global(special::NF) => self.resize_record(),
            _ => Ok(()),
        }
    }

    pub(super) fn text(&mut self, shell: &mut Shell, expression: &'p Expression) -> Done<Rc<str>> {
        let format = self.special_text(special::CONVFMT);
        Ok(self.value(shell, expression)?.as_text(&format))
    }

    pub(super) fn number(&mut self, shell: &mut Shell, expression: &'p Expression) -> Done<f64> {
        Ok(self.value(shell, expression)?.number())
    }

    pub(super) fn value(&mut self, shell: &mut Shell, expression: &'p Expression) -> Done<Value> {
        Ok(match expression {
            Expression::Number(value) => Value::Number(*value),
            Expression::Text(text) => Value::text(text),
            Expression::Regex(text) => {
                let record = self.field(0.0)?.as_text("%.6g");
                self.regex(text)?.is_match(record.as_bytes()).into()
            }
            Expression::Place(place) => self.read_place(shell, place)?,
            Expression::Assign(place, value) => {
                let value = self.value(shell, value)?;
                self.assign(shell, place, value.clone())?;
                value
            }
            Expression::Update(place, operator, value) => {
                let right = self.number(shell, value)?;
                let left = self.read_place(shell, place)?.number();
                let value = Value::Number(arithmetic(*operator, left, right)?);
                self.assign(shell, place, value.clone())?;
                value
            }
            Expression::Step(place, by, after) => {
                let before = self.read_place(shell, place)?.number();
                self.assign(shell, place, Value::Number(before + by))?;
                Value::Number(if *after { before + by } else { before })
            }
            Expression::Conditional(condition, yes, no) => {
                let branch = if self.value(shell, condition)?.truth() { yes } else { no };
                self.value(shell, branch)?
            }
            Expression::And(left, right) => {
                (self.value(shell, left)?.truth() && self.value(shell, right)?.truth()).into()
            }
            Expression::Or(left, right) => {
                (self.value(shell, left)?.truth() || self.value(shell, right)?.truth()).into()
            }
            Expression::Not(value) => (!self.value(shell, value)?.truth()).into(),
            Expression::Negative(value) => Value::Number(-self.number(shell, value)?),
            Expression::Positive(value) => Value::Number(self.number(shell, value)?),
            Expression::Arithmetic(operator, left, right) => {
                let (left, right) = (self.number(shell, left)?, self.number(shell, right)?);
                Value::Number(arithmetic(*operator, left, right)?)
            }
            Expression::Compare(comparison, left, right) => {
                let (left, right) = (self.value(shell, left)?, self.value(shell, right)?);
                self.compare(*comparison, &left, &right).into()
            }
            other => self.composed(shell, other)?,
        })
    }

    fn composed(&mut self, shell: &mut Shell, expression: &'p Expression) -> Done<Value> {
        Ok(match expression {
            Expression::Concat(left, right) => {
                let left = self.text(shell, left)?;
                let right = self.text(shell, right)?;
                self.bounded(left.len() + right.len())?;
                Value::Text([&*left, &*right].concat().into())
            }
            Expression::Match { negated, text, regex } => {
                let text = self.text(shell, text)?;
                let regex = self.pattern(shell, regex)?;
                (regex.is_match(text.as_bytes()) != *negated).into()
            }
            Expression::In(keys, array) => {
                let key = self.key(shell, keys)?;
                self.array(*array)?.borrow().contains_key(&key).into()
            }
            Expression::Builtin(name, values) => self.builtin(shell, name, values)?,
            Expression::Call(at, values) => self.call(shell, *at, values)?,
            Expression::Getline { place, file } => {
                self.getline(shell, place.as_deref(), file.as_deref())?
            }
            Expression::Group(values) => Value::Text(self.key(shell, values)?),
            _ => Value::Unset,
        })
    }

    fn compare(&self, comparison: Comparison, left: &Value, right: &Value) -> bool {
        let order = match (left.numeric(), right.numeric()) {
            (Some(left), Some(right)) => left.partial_cmp(&right),
            _ => {
                let format = self.special_text(special::CONVFMT);
                Some(left.as_text(&format).cmp(&right.as_text(&format)))
            }
        };
        let Some(order) = order else { return comparison == Comparison::NotEqual };
        match comparison {
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }

    /// The expression on the right of `~`, which may be any value.
    pub(super) fn pattern(&mut self, shell: &mut Shell, value: &'p Expression) -> Done<Rc<Regex>> {
        match value {
            Expression::Regex(text) => self.regex(text),
            other => {
                let text = self.text(shell, other)?;
                self.regex(&text)
            }
        }
    }

    pub(super) fn regex(&mut self, text: &str) -> Done<Rc<Regex>> {
        if let Some(regex) = self.regexes.get(text) {
            return Ok(Rc::clone(regex));
        }
        if self.regexes.len() >= REGEXES_MAX {
            self.regexes.clear();
        }
        let regex = Rc::new(Regex::new(text, Flavour::Extended, false)?);
        self.regexes.insert(text.to_owned(), Rc::clone(&regex));
        Ok(regex)
    }

    fn call(&mut self, shell: &mut Shell, at: usize, values: &'p [Expression]) -> Done<Value> {
        let Some(function) = self.program.functions.get(at) else { return Ok(Value::Unset) };
        let function: &'p Function = function;
        if values.len() > function.parameters.len() {
            return failed(format!("{} takes {} values", function.name, function.parameters.len()));
        }
        if self.frames.len() >= CALL_DEPTH_MAX {
            return Err(Fault::Stop(Stop::Fatal(
                "awk: functions call each other too deeply".to_owned(),
            )));
        }
        let mut frame = Vec::new();
        let mut lent = Vec::new();
        for (place, value) in values.iter().enumerate() {
            let cell = self.argument(shell, value)?;
            if let (Cell::Value(Value::Unset), Expression::Place(Place::Variable(outer))) =
                (&cell, value)
            {
                lent.push((place, *outer));
            }
            frame.push(cell);
        }
        frame.resize(function.parameters.len(), Cell::default());
        self.frames.push(frame);
        let flow = self.statements(shell, &function.body);
        let frame = self.frames.pop().unwrap_or_default();
        // What the function has made an array is one for its caller too.
        for (place, outer) in lent {
            if let (Some(Cell::Array(array)), Some(cell)) = (frame.get(place), self.cell(outer)) {
                *cell = Cell::Array(Rc::clone(array));
            }
        }
        match flow? {
            Flow::Return(value) => Ok(value),
            Flow::Exit => {
                self.exiting = true;
                Ok(Value::Unset)
            }
            _ => Ok(Value::Unset),
        }
    }

    /// Arrays are handed over as they are, values as copies.
    fn argument(&mut self, shell: &mut Shell, value: &'p Expression) -> Done<Cell> {
        if let Expression::Place(Place::Variable(variable)) = value
            && let Some(Cell::Array(array)) = self.cell(*variable)
        {
            return Ok(Cell::Array(Rc::clone(array)));
        }
        Ok(Cell::Value(self.value(shell, value)?))
    }

    fn getline(
        &mut self,
        shell: &mut Shell,
        place: Option<&'p Place>,
        file: Option<&'p Expression>,
    ) -> Done<Value> {
        let text = match file {
            None => self.next_record(shell)?,
            Some(file) => {
                let name = self.text(shell, file)?;
                let input = match self.readers.get(&*name) {
                    Some(input) => input.clone(),
                    None => match shell.open(&name) {
                        Ok(input) => input,
                        Err(_) => return Ok(Value::Number(-1.0)),
                    },
                };
                self.readers.insert(name.to_string(), input.clone());
                self.read_record(&input)?
            }
        };
        let Some(text) = text else { return Ok(Value::Number(0.0)) };
        match place {
            Some(place) => self.assign(shell, place, Value::Input(text.into()))?,
            None => self.set_record(&text),
        }
        Ok(Value::Number(1.0))
    }
}

fn arithmetic(operator: Operator, left: f64, right: f64) -> Done<f64> {
    Ok(match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide | Operator::Remainder if right == 0.0 => return usage("division by zero"),
        Operator::Divide => left / right,
        Operator::Remainder => left % right,
        Operator::Power => left.powf(right),
    })
}
