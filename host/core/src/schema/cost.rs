//! What checking a value against a schema can cost, known before it is checked.
//!
//! A schema of two kilobytes can make a validator work for years: thirty definitions that
//! each refer twice to the next, or a recursive one that branches at every level. The cost is
//! bounded from two numbers of the schema (how many subschemas one value meets, and how often
//! one child of it is visited) and the shape of the value.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

/// In-place nesting (`anyOf` in `$ref` in `allOf` …) that is followed.
const NESTING_MAX: usize = 128;
/// Characters of a string that cost as much as visiting one value.
const CHARS_PER_VISIT: u64 = 64;

/// What telling one element from all others costs, as a share of an evaluation of its array.
const UNIQUE_VISITS: u64 = 16;

/// The two numbers of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    /// Subschemas that one value meets at the most.
    evaluations: u64,
    /// How often one child of a value is visited at the most.
    fanout: u64,
}

impl Cost {
    /// Analyses the schema `root`.
    ///
    /// # Errors
    /// A sentence: endless or too deep nesting, or a kind of reference that is not followed.
    pub(super) fn of(root: &Value) -> Result<Self, String> {
        let mut analysis = Analysis { root, closures: HashMap::new() };
        let mut cost = Self { evaluations: 1, fanout: 1 };
        let mut seen = HashMap::new();
        let mut open = vec![root];
        while let Some(node) = open.pop() {
            if seen.insert(address(node), ()).is_some() {
                continue;
            }
            let closure = analysis.closure(node, NESTING_MAX)?;
            cost.evaluations = cost.evaluations.max(closure.evaluations);
            cost.fanout = cost.fanout.max(closure.fanout());
            open.extend(closure.children);
        }
        Ok(cost)
    }

    /// Returns a bound on the subschemas that checking `value` evaluates.
    pub(super) fn bound(self, value: &Value) -> u64 {
        self.visits(value, 1).saturating_mul(self.evaluations)
    }

    fn visits(self, value: &Value, times: u64) -> u64 {
        let below = times.saturating_mul(self.fanout);
        let children = match value {
            Value::Array(items) => {
                items.iter().fold(0u64, |sum, item| sum.saturating_add(self.visits(item, below)))
            }
            Value::Object(map) => {
                map.values().fold(0u64, |sum, item| sum.saturating_add(self.visits(item, below)))
            }
            Value::String(text) => times.saturating_mul(text.len() as u64 / CHARS_PER_VISIT),
            _ => 0,
        };
        times.saturating_add(children)
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

struct Analysis<'a> {
    root: &'a Value,
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
        for (slot, node) in descending(keyword, value) {
            *into.slots.entry(slot).or_default() += 1;
            into.children.push(node);
        }
        Ok(())
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
        assert!(Cost::of(&chain(30, false)).unwrap().bound(&json!({"a": 1})) < 1_000);
        assert!(Cost::of(&chain(30, true)).unwrap().bound(&json!({"a": 1})) > 1 << 30);
    }

    #[test]
    fn a_recursive_schema_that_branches_costs_by_the_depth_of_the_value() {
        let schema = json!({"anyOf": [
            {"properties": {"x": {"$ref": "#"}}}, {"properties": {"x": {"$ref": "#"}}}
        ]});
        let cost = Cost::of(&schema).unwrap();
        let mut value = json!({});
        for _ in 0..60 {
            value = json!({"x": value});
        }
        assert!(cost.bound(&json!({"x": {"x": {}}})) < 1_000);
        assert!(cost.bound(&value) > 1 << 50);
    }

    #[test]
    fn a_tree_costs_one_visit_a_node() {
        let schema =
            json!({"type": "object", "properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}});
        let value = json!({"l": {"l": {}, "r": {}}, "r": {"l": {}, "r": {}}});
        assert_eq!(Cost::of(&schema).unwrap().fanout, 1);
        assert!(Cost::of(&schema).unwrap().bound(&value) < 100);
    }

    #[test]
    fn endless_references_are_refused() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
            json!({"$dynamicRef": "#x"}),
            json!({"properties": {"a": {"$id": "other", "type": "string"}}}),
        ] {
            assert!(Cost::of(&schema).is_err(), "{schema}");
        }
        assert!(Cost::of(&json!({"properties": {"$id": {"type": "string"}}})).is_ok());
    }
}
