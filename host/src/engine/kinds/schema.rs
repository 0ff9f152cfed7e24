//! JSON Schemas of functions, from their WIT types.
//!
//! | WIT | JSON |
//! |---|---|
//! | `bool`, `string` | the same |
//! | `u8`…`s32` | an integer within its bounds |
//! | `u64`, `s64` | an integer up to 2^53 - 1, beyond which JSON readers round; a decimal text for more |
//! | `f32`, `f64` | a number, or one of `NaN`, `Infinity`, `-Infinity` |
//! | `char` | a text of one character |
//! | `list`, `tuple` | an array; of a tuple, one of fixed length |
//! | `record` | a closed object |
//! | `variant`, `result` | an object with one property, the case; `null` where it holds nothing |
//! | `enum`, `flags` | one of its names; an array of them |
//! | `option` | `null` or absent for none; inside another option, `{"some": …}` |
//!
//! A function's arguments are an object with one property a parameter; its result is the property
//! `result` of an object, as MCP wants one. The error of a `result` it returns is a failed call.
//! Refused: resources, streams, futures, and whatever is not in the table.

use clawhost_core::limits::FUNCTION_TYPES_MAX;
use clawhost_core::schema::Schema;
use serde_json::{Map, Value, json};
use wasmtime::component::Type;
use wasmtime::component::types::ComponentFunc;

/// The largest whole number that every reader of JSON keeps.
pub(super) const EXACT_MAX: i64 = (1 << 53) - 1;
/// Digits of a 64-bit number, and its sign.
const DIGITS_MAX: usize = 20;

/// Returns the schemas of a function's arguments and of its structured result, if it has one.
///
/// # Errors
/// Says which type has no form in JSON, or that there are too many or that they are nested too deeply.
pub(super) fn of_function(func: &ComponentFunc) -> Result<(Value, Option<Value>), String> {
    let mut schemas = Schemas { left: FUNCTION_TYPES_MAX };
    let input = schemas.object(func.params())?;
    let result = match func.results().next() {
        Some(Type::Result(result)) => result.ok(),
        result => result,
    };
    let output = result.map(|ty| schemas.object(std::iter::once(("result", ty)))).transpose()?;
    // Nothing of an error is promised, but it has to have a form.
    if let Some(Type::Result(result)) = func.results().next() {
        result.err().map(|ty| schemas.of(&ty)).transpose()?;
    }
    for schema in std::iter::once(&input).chain(&output) {
        Schema::bounded(schema).map_err(|why| format!("a schema of it would be {why}"))?;
    }
    Ok((input, output))
}

/// Writes schemas, and ends where types refer to each other in more ways than are worth writing.
struct Schemas {
    left: usize,
}

impl Schemas {
    fn of(&mut self, ty: &Type) -> Result<Value, String> {
        self.count(1)?;
        Ok(match ty {
            Type::Bool => json!({"type": "boolean"}),
            Type::S8 => integer(i8::MIN, i8::MAX),
            Type::U8 => integer(u8::MIN, u8::MAX),
            Type::S16 => integer(i16::MIN, i16::MAX),
            Type::U16 => integer(u16::MIN, u16::MAX),
            Type::S32 => integer(i32::MIN, i32::MAX),
            Type::U32 => integer(u32::MIN, u32::MAX),
            Type::S64 => long_integer(-EXACT_MAX),
            Type::U64 => long_integer(0),
            Type::Float32 => {
                float(&json!({"type": "number", "minimum": f32::MIN, "maximum": f32::MAX}))
            }
            Type::Float64 => float(&json!({"type": "number"})),
            Type::Char => json!({"type": "string", "minLength": 1, "maxLength": 1}),
            Type::String => json!({"type": "string"}),
            Type::List(list) => json!({"type": "array", "items": self.of(&list.ty())?}),
            Type::Tuple(tuple) => self.tuple(tuple.types())?,
            Type::Record(record) => {
                self.object(record.fields().map(|field| (field.name, field.ty)))?
            }
            Type::Variant(variant) => {
                self.one_of(variant.cases().map(|case| (case.name, case.ty)))?
            }
            Type::Result(result) => {
                self.one_of([("ok", result.ok()), ("err", result.err())].into_iter())?
            }
            Type::Enum(names) => self.names(names.names())?,
            Type::Flags(flags) => json!({"type": "array", "items": self.names(flags.names())?}),
            Type::Option(option) => self.option(&option.ty())?,
            other => return Err(format!("it has {}, which has no form in JSON", called(other))),
        })
    }

    fn count(&mut self, types: usize) -> Result<(), String> {
        let left = self.left.checked_sub(types);
        self.left = left
            .ok_or_else(|| format!("its types are more than {FUNCTION_TYPES_MAX}, written out"))?;
        Ok(())
    }

    /// A closed object; a property whose type is an option may be absent.
    fn object<'a>(
        &mut self,
        fields: impl Iterator<Item = (&'a str, Type)>,
    ) -> Result<Value, String> {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for (name, ty) in fields {
            properties.insert(name.to_owned(), self.of(&ty)?);
            if !matches!(ty, Type::Option(_)) {
                required.push(name);
            }
        }
        Ok(json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }))
    }

    /// An object with exactly one of these properties.
    fn one_of<'a>(
        &mut self,
        cases: impl Iterator<Item = (&'a str, Option<Type>)>,
    ) -> Result<Value, String> {
        let mut properties = Map::new();
        for (name, ty) in cases {
            self.count(1)?;
            let schema = ty.map_or_else(|| Ok(json!({"type": "null"})), |ty| self.of(&ty))?;
            properties.insert(name.to_owned(), schema);
        }
        Ok(json!({
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
            "minProperties": 1,
            "maxProperties": 1,
        }))
    }

    fn tuple(&mut self, types: impl ExactSizeIterator<Item = Type>) -> Result<Value, String> {
        let length = types.len();
        let items = types.map(|ty| self.of(&ty)).collect::<Result<Vec<_>, _>>()?;
        Ok(json!({
            "type": "array",
            "prefixItems": items,
            "items": false,
            "minItems": length,
            "maxItems": length,
        }))
    }

    fn names<'a>(
        &mut self,
        names: impl ExactSizeIterator<Item = &'a str>,
    ) -> Result<Value, String> {
        self.count(names.len())?;
        Ok(json!({"type": "string", "enum": names.collect::<Vec<_>>()}))
    }

    fn option(&mut self, inner: &Type) -> Result<Value, String> {
        let some = self.of(inner)?;
        // `null` is the inner option's none, so the outer one has to be told from it.
        let some = if matches!(inner, Type::Option(_)) {
            json!({
                "type": "object",
                "properties": {"some": some},
                "required": ["some"],
                "additionalProperties": false,
            })
        } else {
            some
        };
        Ok(json!({"anyOf": [some, {"type": "null"}]}))
    }
}

fn integer(minimum: impl Into<i64>, maximum: impl Into<i64>) -> Value {
    json!({"type": "integer", "minimum": minimum.into(), "maximum": maximum.into()})
}

fn long_integer(minimum: i64) -> Value {
    json!({
        "type": ["integer", "string"],
        "minimum": minimum,
        "maximum": EXACT_MAX,
        "maxLength": DIGITS_MAX,
    })
}

fn float(number: &Value) -> Value {
    json!({"anyOf": [number, {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}]})
}

fn called(ty: &Type) -> &'static str {
    match ty {
        Type::Own(_) | Type::Borrow(_) => "a resource",
        Type::Future(_) => "a future",
        Type::Stream(_) => "a stream",
        Type::ErrorContext => "an error context",
        Type::Map(_) => "a map",
        _ => "a list of fixed length",
    }
}
