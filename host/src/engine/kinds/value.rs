//! Between JSON and the values of WIT types, in the forms that [`super::schema`] tells of.
//!
//! Arguments have passed their schema before; what no schema can say is checked here. Results
//! cannot be deeper than their types, which the engine bounds, nor larger than what it lifts.

use clawhost_core::limits::FUNCTION_VALUES_MAX;
use serde_json::{Map, Number, Value};
use wasmtime::component::{Type, Val};

use super::schema::EXACT_MAX;

/// Returns the arguments of a function, in the order of its parameters.
///
/// # Errors
/// A sentence for the caller: which parameter does not fit, or that there is too much.
pub(crate) fn arguments(params: &[(String, Type)], given: &Value) -> Result<Vec<Val>, String> {
    let mut lower = Lower { left: FUNCTION_VALUES_MAX };
    let one = |(name, ty): &(String, Type)| {
        let value = given.get(name).unwrap_or(&Value::Null);
        lower.value(value, ty).map_err(|why| format!("`{name}`: {why}"))
    };
    params.iter().map(one).collect()
}

/// Returns the JSON form of what a function returned.
///
/// # Errors
/// It has none: the component returned what its type forbids.
pub(crate) fn json(value: Val) -> Result<Value, String> {
    Ok(match value {
        Val::Bool(value) => value.into(),
        Val::S8(value) => value.into(),
        Val::U8(value) => value.into(),
        Val::S16(value) => value.into(),
        Val::U16(value) => value.into(),
        Val::S32(value) => value.into(),
        Val::U32(value) => value.into(),
        Val::S64(value) if value.abs_diff(0) <= EXACT_MAX.unsigned_abs() => value.into(),
        Val::S64(value) => value.to_string().into(),
        Val::U64(value) if value <= EXACT_MAX.unsigned_abs() => value.into(),
        Val::U64(value) => value.to_string().into(),
        // By its shortest decimal form: 0.1 is not to become 0.10000000149011612.
        Val::Float32(value) => {
            float(value.to_string().parse().unwrap_or_else(|_| f64::from(value)))
        }
        Val::Float64(value) => float(value),
        Val::Char(value) => value.to_string().into(),
        Val::String(value) | Val::Enum(value) => value.into(),
        Val::List(values) | Val::Tuple(values) => {
            Value::Array(values.into_iter().map(json).collect::<Result<_, _>>()?)
        }
        Val::Record(fields) => {
            let field = |(name, value)| Ok::<_, String>((name, json(value)?));
            Value::Object(fields.into_iter().map(field).collect::<Result<Map<_, _>, _>>()?)
        }
        Val::Variant(case, value) => one(case, value)?,
        Val::Result(Ok(value)) => one("ok".to_owned(), value)?,
        Val::Result(Err(value)) => one("err".to_owned(), value)?,
        Val::Option(None) => Value::Null,
        Val::Option(Some(value)) if matches!(*value, Val::Option(_)) => {
            one("some".to_owned(), Some(value))?
        }
        Val::Option(Some(value)) => json(*value)?,
        Val::Flags(names) => names.into(),
        _ => return Err("a value that has no form in JSON".to_owned()),
    })
}

fn one(case: String, value: Option<Box<Val>>) -> Result<Value, String> {
    let value = value.map_or(Ok(Value::Null), |value| json(*value))?;
    Ok(Value::Object(Map::from_iter([(case, value)])))
}

fn float(value: f64) -> Value {
    let text = || match value {
        value if value.is_nan() => "NaN",
        value if value > 0.0 => "Infinity",
        _ => "-Infinity",
    };
    Number::from_f64(value).map_or_else(|| text().into(), Value::Number)
}

/// Makes values, and ends where they would be too many.
struct Lower {
    left: usize,
}

impl Lower {
    fn value(&mut self, json: &Value, ty: &Type) -> Result<Val, String> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            format!("more than {FUNCTION_VALUES_MAX} values are not passed to a function")
        })?;
        let made = match ty {
            Type::Bool => json.as_bool().map(Val::Bool),
            Type::S8 => whole(json).map(Val::S8),
            Type::U8 => whole(json).map(Val::U8),
            Type::S16 => whole(json).map(Val::S16),
            Type::U16 => whole(json).map(Val::U16),
            Type::S32 => whole(json).map(Val::S32),
            Type::U32 => whole(json).map(Val::U32),
            Type::S64 => whole(json).map(Val::S64),
            Type::U64 => whole(json).map(Val::U64),
            #[expect(clippy::cast_possible_truncation, reason = "the schema bounds it; f32 rounds")]
            Type::Float32 => number(json).map(|value| Val::Float32(value as f32)),
            Type::Float64 => number(json).map(Val::Float64),
            Type::Char => json.as_str().and_then(|text| text.parse().ok()).map(Val::Char),
            Type::String => json.as_str().map(|text| Val::String(text.to_owned())),
            Type::Enum(names) => {
                let given = json.as_str().filter(|given| names.names().any(|name| name == *given));
                given.map(|name| Val::Enum(name.to_owned()))
            }
            Type::Flags(flags) => {
                let name = |given: &Value| {
                    let given = given.as_str()?;
                    flags.names().find(|name| *name == given).map(str::to_owned)
                };
                json.as_array().and_then(|all| all.iter().map(name).collect()).map(Val::Flags)
            }
            _ => return self.compound(json, ty),
        };
        made.ok_or_else(|| "it does not fit its type".to_owned())
    }

    fn compound(&mut self, json: &Value, ty: &Type) -> Result<Val, String> {
        match (ty, json) {
            (Type::Option(_), Value::Null) => Ok(Val::Option(None)),
            (Type::Option(option), json) => {
                let inner = option.ty();
                let is_nested = matches!(inner, Type::Option(_));
                let json = if is_nested { json.get("some").unwrap_or(&Value::Null) } else { json };
                Ok(Val::Option(Some(Box::new(self.value(json, &inner)?))))
            }
            (Type::List(list), Value::Array(items)) => {
                let ty = list.ty();
                let items = items.iter().map(|item| self.value(item, &ty));
                Ok(Val::List(items.collect::<Result<_, _>>()?))
            }
            (Type::Tuple(tuple), Value::Array(items)) => {
                let items = items.iter().zip(tuple.types()).map(|(item, ty)| self.value(item, &ty));
                Ok(Val::Tuple(items.collect::<Result<_, _>>()?))
            }
            (Type::Record(record), Value::Object(object)) => {
                let field = |field: wasmtime::component::types::Field<'_>| {
                    let value = object.get(field.name).unwrap_or(&Value::Null);
                    Ok((field.name.to_owned(), self.value(value, &field.ty)?))
                };
                Ok(Val::Record(record.fields().map(field).collect::<Result<_, String>>()?))
            }
            (Type::Variant(variant), Value::Object(object)) => {
                let (given, value) = only(object)?;
                let mut cases = variant.cases();
                let case =
                    cases.find(|case| case.name == given).ok_or("it is no case of its type")?;
                Ok(Val::Variant(given.to_owned(), self.payload(value, case.ty)?))
            }
            (Type::Result(result), Value::Object(object)) => match only(object)? {
                ("ok", value) => Ok(Val::Result(Ok(self.payload(value, result.ok())?))),
                ("err", value) => Ok(Val::Result(Err(self.payload(value, result.err())?))),
                _ => Err("it is neither `ok` nor `err`".to_owned()),
            },
            _ => Err("it does not fit its type".to_owned()),
        }
    }

    fn payload(&mut self, json: &Value, ty: Option<Type>) -> Result<Option<Box<Val>>, String> {
        ty.map(|ty| self.value(json, &ty).map(Box::new)).transpose()
    }
}

fn only(object: &Map<String, Value>) -> Result<(&str, &Value), String> {
    let mut all = object.iter();
    match (all.next(), all.next()) {
        (Some((name, value)), None) => Ok((name, value)),
        _ => Err("exactly one property is the case".to_owned()),
    }
}

/// Reads a whole number: `5`, `5.0` or `"5"`.
fn whole<T: TryFrom<i128>>(json: &Value) -> Option<T> {
    let value = match json {
        Value::String(text) => text.parse().ok()?,
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), ..) => i128::from(value),
            (_, Some(value), _) => i128::from(value),
            #[expect(clippy::cast_possible_truncation, reason = "it is whole and within 2^53")]
            (.., Some(value)) if value.fract() == 0.0 && value.abs() <= EXACT_MAX as f64 => {
                value as i128
            }
            _ => return None,
        },
        _ => return None,
    };
    T::try_from(value).ok()
}

fn number(json: &Value) -> Option<f64> {
    match json.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        Some(_) => None,
        None => json.as_f64(),
    }
}
