//! What checking a value against a schema can cost, known before it is checked.
//!
//! A schema of two kilobytes can make a validator work for years: thirty definitions that
//! each refer twice to the next, or a recursive one that branches at every level. The cost is
//! bounded from two numbers of the schema (how many subschemas one value meets, and how often
//! one child of it is visited) and the shape of the value.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use crate::limits::{SCHEMA_PATTERN_BYTES_MAX, SCHEMA_PATTERNS_BYTES_MAX};

/// In-place nesting (`anyOf` in `$ref` in `allOf` …) that is followed.
const NESTING_MAX: usize = 128;
/// Characters of a string that cost as much as visiting one value.
const CHARS_PER_VISIT: u64 = 64;

/// Sizes that a pattern is tried at: the first at which it compiles is its weight.
const PATTERN_SIZES_BYTES: [u64; 6] =
    [2_048, 8_192, 32_768, 65_536, 131_072, SCHEMA_PATTERN_BYTES_MAX];

/// What telling one element from all others costs, as a share of an evaluation of its array.
const UNIQUE_VISITS: u64 = 16;

/// The two numbers of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    /// Subschemas that one value meets at the most.
    evaluations: u64,
    /// How often one child of a value is visited at the most.
    fanout: u64,
    /// What a character of a string costs at the most, for the patterns it is matched with.
    text: u64,
    /// What a character of a property's name costs at the most.
    names: u64,
}

impl Cost {
    /// Analyses the schema `root`, and takes away what its patterns compile to.
    ///
    /// # Errors
    /// A sentence: endless or too deep nesting, or a kind of reference that is not followed.
    pub(super) fn of(root: &Value, pattern_bytes_left: &mut u64) -> Result<Self, String> {
        let mut analysis = Analysis {
            root,
            patterns_left: SCHEMA_PATTERNS_BYTES_MAX,
            all_left: pattern_bytes_left,
            closures: HashMap::new(),
        };
        let mut cost = Self { evaluations: 1, fanout: 1, text: 0, names: 0 };
        let mut seen = HashMap::new();
        let mut open = vec![root];
        while let Some(node) = open.pop() {
            if seen.insert(address(node), ()).is_some() {
                continue;
            }
            let closure = analysis.closure(node, NESTING_MAX)?;
            cost.evaluations = cost.evaluations.max(closure.evaluations);
            cost.fanout = cost.fanout.max(closure.fanout());
            cost.text = cost.text.max(closure.text);
            cost.names = cost.names.max(closure.names);
            open.extend(closure.children);
        }
        Ok(cost)
    }

    /// Returns a bound on what checking `value` evaluates.
    pub(super) fn bound(self, value: &Value) -> u64 {
        self.work(value, 1)
    }

    fn work(self, value: &Value, times: u64) -> u64 {
        let below = times.saturating_mul(self.fanout);
        let add = |sum: u64, item: &Value| sum.saturating_add(self.work(item, below));
        let (own, children) = match value {
            Value::Array(items) => (0, items.iter().fold(0, add)),
            Value::Object(map) => {
                let names: u64 = map.keys().map(|name| name.len() as u64).sum();
                (names.saturating_mul(self.names), map.values().fold(0, add))
            }
            Value::String(text) => {
                let length = text.len() as u64;
                ((length / CHARS_PER_VISIT).saturating_add(length.saturating_mul(self.text)), 0)
            }
            _ => (0, 0),
        };
        times.saturating_mul(self.evaluations.saturating_add(own)).saturating_add(children)
    }
}

/// Which children of a value a subschema visits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Slot<'a> {
    /// Every element of an array.
    Elements,
    /// The element at one place.
    Element(usize),
    /// The names of an object.
    Names,
    /// Any property of an object.
    Properties,
    /// The property of one name.
    Property(&'a str),
}

/// Everything one value meets in one evaluation of a node.
#[derive(Debug, Clone, Default)]
struct Closure<'a> {
    evaluations: u64,
    text: u64,
    names: u64,
    slots: BTreeMap<Slot<'a>, u64>,
    children: Vec<&'a Value>,
}

impl Closure<'_> {
    fn fanout(&self) -> u64 {
        let count = |slot: &Slot<'_>| self.slots.get(slot).copied().unwrap_or_default();
        let most = |wanted: fn(&Slot<'_>) -> bool| {
            self.slots
                .iter()
                .filter(|(slot, _)| wanted(slot))
                .map(|(_, count)| *count)
                .max()
                .unwrap_or_default()
        };
        let property =
            most(|slot| matches!(slot, Slot::Property(_))).saturating_add(count(&Slot::Properties));
        let element =
            most(|slot| matches!(slot, Slot::Element(_))).saturating_add(count(&Slot::Elements));
        property.saturating_add(count(&Slot::Names)).max(element)
    }
}

/// Returns what a regular expression compiles to, about; none where it does not, or to too much.
pub(crate) fn compiled_bytes(pattern: &str) -> Option<u64> {
    let compiles = |bytes: &u64| {
        let limit = usize::try_from(*bytes).unwrap_or(usize::MAX);
        regex::RegexBuilder::new(pattern).size_limit(limit).build().is_ok()
    };
    PATTERN_SIZES_BYTES.into_iter().find(compiles)
}

struct Analysis<'a> {
    root: &'a Value,
    /// Bytes of compiled patterns that the schema may still have.
    patterns_left: u64,
    /// Bytes that it and others together may still have.
    all_left: &'a mut u64,
    /// By the node's address; none while the node is being analysed.
    closures: HashMap<usize, Option<Closure<'a>>>,
}

impl<'a> Analysis<'a> {
    fn closure(&mut self, node: &'a Value, nesting: usize) -> Result<Closure<'a>, String> {
        match self.closures.get(&address(node)) {
            Some(Some(known)) => return Ok(known.clone()),
            Some(None) => {
                return Err("a subschema refers to itself without going into the value".to_owned());
            }
            None if nesting == 0 => {
                return Err(format!("subschemas are nested over {NESTING_MAX} levels"));
            }
            None => {}
        }
        self.closures.insert(address(node), None);
        let closure = match node {
            Value::Object(keywords) => {
                self.object(keywords, std::ptr::eq(node, self.root), nesting)?
            }
            _ => Closure { evaluations: 1, ..Closure::default() },
        };
        self.closures.insert(address(node), Some(closure.clone()));
        Ok(closure)
    }

    fn object(
        &mut self,
        keywords: &'a Map<String, Value>,
        is_root: bool,
        nesting: usize,
    ) -> Result<Closure<'a>, String> {
        let mut closure = Closure { evaluations: keywords.len() as u64 + 1, ..Closure::default() };
        for (keyword, value) in keywords {
            match keyword.as_str() {
                "$dynamicRef" | "$recursiveRef" => {
                    return Err(format!("`{keyword}` is not followed; use `$ref`"));
                }
                "$id" if !is_root && value.is_string() => {
                    return Err(
                        "`$id` inside a schema is not followed; refer with `#/$defs/…`".to_owned()
                    );
                }
                "const" | "enum" | "required" => {
                    closure.evaluations = closure.evaluations.saturating_add(size(value))
                }
                "pattern" => {
                    let weight = self.pattern(value.as_str().unwrap_or_default())?;
                    closure.text = closure.text.saturating_add(weight);
                }
                "uniqueItems" => {
                    closure.evaluations = closure.evaluations.saturating_add(UNIQUE_VISITS)
                }
                _ => self.keyword(keyword, value, &mut closure, nesting)?,
            }
        }
        Ok(closure)
    }

    fn keyword(
        &mut self,
        keyword: &str,
        value: &'a Value,
        into: &mut Closure<'a>,
        nesting: usize,
    ) -> Result<(), String> {
        for node in self.in_place(keyword, value)? {
            into.add(self.closure(node, nesting - 1)?);
        }
        if let ("patternProperties", Value::Object(nodes)) = (keyword, value) {
            for pattern in nodes.keys() {
                into.names = into.names.saturating_add(self.pattern(pattern)?);
            }
        }
        for (slot, node) in descending(keyword, value) {
            *into.slots.entry(slot).or_default() += 1;
            into.children.push(node);
        }
        Ok(())
    }

    /// Returns what one character costs that is matched with `pattern`: it grows with the
    /// compiled size, of which a schema has only so much.
    fn pattern(&mut self, pattern: &str) -> Result<u64, String> {
        // What this crate cannot compile may be fine in the schema's own dialect: assume the most.
        let spent =
            || "with its patterns, all schemas together compile to too many bytes".to_owned();
        if *self.all_left == 0 {
            return Err(spent());
        }
        let bytes = compiled_bytes(pattern).unwrap_or(SCHEMA_PATTERN_BYTES_MAX);
        self.patterns_left = self.patterns_left.checked_sub(bytes).ok_or_else(|| {
            format!("its patterns compile to more than {SCHEMA_PATTERNS_BYTES_MAX} bytes")
        })?;
        let all_left = self.all_left.checked_sub(bytes);
        *self.all_left = all_left.unwrap_or_default();
        all_left.ok_or_else(spent)?;
        Ok(bytes / PATTERN_SIZES_BYTES[0])
    }

    /// Returns the subschemas that a keyword applies to the same value.
    fn in_place(&self, keyword: &str, value: &'a Value) -> Result<Vec<&'a Value>, String> {
        Ok(match (keyword, value) {
            ("allOf" | "anyOf" | "oneOf", Value::Array(nodes)) => nodes.iter().collect(),
            ("not" | "if" | "then" | "else", node) => vec![node],
            ("dependentSchemas" | "dependencies", Value::Object(nodes)) => {
                nodes.values().filter(|node| !node.is_array()).collect()
            }
            ("$ref", Value::String(reference)) => vec![self.resolve(reference)?],
            _ => Vec::new(),
        })
    }

    fn resolve(&self, reference: &str) -> Result<&'a Value, String> {
        let missing = || format!("`$ref` to {reference:?} leads nowhere in this schema");
        let fragment = reference.strip_prefix('#').ok_or_else(missing)?;
        if fragment.is_empty() {
            return Ok(self.root);
        }
        if fragment.starts_with('/') {
            let pointer = fragment.replace("%25", "%").replace("%22", "\"").replace("%5E", "^");
            return self.root.pointer(&pointer).ok_or_else(missing);
        }
        anchored(self.root, fragment).ok_or_else(missing)
    }
}

impl<'a> Closure<'a> {
    fn add(&mut self, other: Self) {
        self.evaluations = self.evaluations.saturating_add(other.evaluations);
        self.text = self.text.saturating_add(other.text);
        self.names = self.names.saturating_add(other.names);
        for (slot, count) in other.slots {
            let sum = self.slots.entry(slot).or_default();
            *sum = sum.saturating_add(count);
        }
        self.children.extend(other.children);
        // The same child from many paths is one child; how often is in `slots`.
        self.children.sort_by_key(|node| address(node));
        self.children.dedup_by_key(|node| address(node));
    }
}

/// Returns the subschemas that a keyword applies to children of the value, and to which.
fn descending<'a>(keyword: &str, value: &'a Value) -> Vec<(Slot<'a>, &'a Value)> {
    match (keyword, value) {
        ("properties", Value::Object(nodes)) => {
            nodes.iter().map(|(name, node)| (Slot::Property(name), node)).collect()
        }
        ("patternProperties", Value::Object(nodes)) => {
            nodes.values().map(|node| (Slot::Properties, node)).collect()
        }
        ("items" | "prefixItems", Value::Array(nodes)) => {
            nodes.iter().enumerate().map(|(at, node)| (Slot::Element(at), node)).collect()
        }
        ("additionalProperties" | "unevaluatedProperties", node) => vec![(Slot::Properties, node)],
        ("items" | "additionalItems" | "unevaluatedItems" | "contains", node) => {
            vec![(Slot::Elements, node)]
        }
        ("propertyNames", node) => vec![(Slot::Names, node)],
        _ => Vec::new(),
    }
}

fn anchored<'a>(node: &'a Value, name: &str) -> Option<&'a Value> {
    match node {
        Value::Object(map) if map.get("$anchor").and_then(Value::as_str) == Some(name) => {
            Some(node)
        }
        Value::Object(map) => map.values().find_map(|node| anchored(node, name)),
        Value::Array(nodes) => nodes.iter().find_map(|node| anchored(node, name)),
        _ => None,
    }
}

/// Returns how many values `value` holds: what comparing with it can cost.
fn size(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<u64>(),
        Value::Object(map) => 1 + map.values().map(size).sum::<u64>(),
        Value::String(text) => 1 + text.len() as u64 / CHARS_PER_VISIT,
        _ => 1,
    }
}

/// Nodes are told apart by where they lie: the schema is not moved while it is analysed.
fn address(node: &Value) -> usize {
    std::ptr::from_ref(node).addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cost_of(schema: &Value) -> Result<Cost, String> {
        Cost::of(schema, &mut { u64::MAX })
    }

    fn chain(links: usize, twice: bool) -> Value {
        let mut definitions = Map::new();
        for link in 0..links {
            let next = json!({"$ref": format!("#/$defs/d{}", link + 1)});
            let nodes = if twice { vec![next.clone(), next] } else { vec![next] };
            definitions.insert(format!("d{link}"), json!({"anyOf": nodes}));
        }
        definitions.insert(format!("d{links}"), json!({"type": "string"}));
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions})
    }

    #[test]
    fn references_that_double_cost_what_they_expand_to() {
        assert!(cost_of(&chain(30, false)).unwrap().bound(&json!({"a": 1})) < 1_000);
        assert!(cost_of(&chain(30, true)).unwrap().bound(&json!({"a": 1})) > 1 << 30);
    }

    #[test]
    fn a_recursive_schema_that_branches_costs_by_the_depth_of_the_value() {
        let schema = json!({"anyOf": [
            {"properties": {"x": {"$ref": "#"}}}, {"properties": {"x": {"$ref": "#"}}}
        ]});
        let cost = cost_of(&schema).unwrap();
        let mut value = json!({});
        for _ in 0..60 {
            value = json!({"x": value});
        }
        assert!(cost.bound(&json!({"x": {"x": {}}})) < 1_000);
        assert!(cost.bound(&value) > 1 << 50);
    }

    #[test]
    fn a_pattern_costs_by_its_compiled_size_and_the_length_of_the_text() {
        let cost = |pattern: &str| {
            let schema = json!({"properties": {"a": {"type": "string", "pattern": pattern}}});
            cost_of(&schema).unwrap().bound(&json!({"a": "1".repeat(20_000)}))
        };
        assert!(cost("^[a-z]+$") < 50_000);
        assert!(cost("^[01]*1[01]{2000}$") > 500_000);
        let many: Map<String, Value> = (0..3_000).map(|k| (format!("^k{k}$"), json!({}))).collect();
        assert!(cost_of(&json!({"patternProperties": many})).is_err());
    }

    #[test]
    fn a_tree_costs_one_visit_a_node() {
        let schema =
            json!({"type": "object", "properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}});
        let value = json!({"l": {"l": {}, "r": {}}, "r": {"l": {}, "r": {}}});
        assert_eq!(cost_of(&schema).unwrap().fanout, 1);
        assert!(cost_of(&schema).unwrap().bound(&value) < 100);
    }

    #[test]
    fn endless_references_are_refused() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
            json!({"$dynamicRef": "#x"}),
            json!({"properties": {"a": {"$id": "other", "type": "string"}}}),
        ] {
            assert!(cost_of(&schema).is_err(), "{schema}");
        }
        assert!(cost_of(&json!({"properties": {"$id": {"type": "string"}}})).is_ok());
    }
}
