//! What checking a value against a schema can cost, known before it is checked.
//!
//! A schema of two kilobytes can make a validator work for years: thirty definitions that
//! each refer twice to the next, or a recursive one that branches at every level. The cost is
//! bounded from two numbers of the schema (how many subschemas one value meets, and how often
//! one child of it is visited) and the shape of the value.

mod mismatches;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use self::mismatches::copied_bytes;
use super::positions::{any, any_schema, leads_into_values};
use crate::digest;
use crate::limits::{SCHEMA_NESTING_MAX, SCHEMA_PATTERN_BYTES_MAX, SCHEMA_PATTERNS_BYTES_MAX};

/// Characters of a string that cost as much as visiting one value, each time that it is read.
const CHARS_PER_VISIT: u64 = 64;
/// What parsing a string costs, in times that it is read: what its content is, or its format.
const PARSING_READS: u64 = 16;

/// Sizes that a pattern is tried at: the first at which it compiles is its weight.
const PATTERN_SIZES_BYTES: [u64; 6] =
    [2_048, 8_192, 32_768, 65_536, 131_072, SCHEMA_PATTERN_BYTES_MAX];

/// What telling one element from all others costs, as a share of an evaluation of its array.
const UNIQUE_VISITS: u64 = 16;
/// What dividing by a fraction costs, about: a number of three hundred digits is divided as such.
const FRACTION_VISITS: u64 = 64;
/// Entries of subschemas for the same value that are taken over into those that refer to them: as many as these are
/// some 50 MiB.
const TAKEN_OVER_MAX: usize = 1_000_000;

/// What a schema costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    /// Subschemas that one value meets at the most.
    evaluations: u64,
    /// How often one child of a value is visited at the most.
    fanout: u64,
    /// What a character of a string costs at the most, for the patterns it is matched with.
    text: u64,
    /// How often a string is read from end to end at the most.
    reads: u64,
    /// What a character of a property's name costs at the most.
    names: u64,
    /// How often one name of a property is checked as a value at the most.
    named: u64,
    /// In-place nesting, at the most.
    depth: u64,
    has_alternatives: bool,
    /// Bytes of the schema that one mismatch holds a copy of, at the most.
    copied_bytes: u64,
}

impl Cost {
    /// Analyses the schema `root`, and takes away what its patterns compile to.
    ///
    /// # Errors
    /// A sentence: endless or too deep nesting, or a kind of reference that is not followed.
    pub(super) fn of(root: &Value, pattern_bytes_left: &mut u64) -> Result<Self, String> {
        refuse_inner_ids(root)?;
        let mut analysis = Analysis {
            root,
            has_parsed: any(root, &is_of_older_dialect),
            patterns_left: SCHEMA_PATTERNS_BYTES_MAX,
            all_left: pattern_bytes_left,
            closures: HashMap::new(),
            taken_over_left: TAKEN_OVER_MAX,
        };
        let has_alternatives =
            any(root, &|node: &Value| node.get("anyOf").or_else(|| node.get("oneOf")).is_some());
        let mut cost = Self {
            evaluations: 1,
            fanout: 1,
            text: 0,
            reads: 1,
            names: 0,
            named: 0,
            depth: 1,
            has_alternatives,
            copied_bytes: copied_bytes(root),
        };
        let mut seen = HashMap::new();
        let mut open = vec![root];
        while let Some(node) = open.pop() {
            if seen.insert(address(node), ()).is_some() {
                continue;
            }
            let closure = analysis.closure(node, SCHEMA_NESTING_MAX)?;
            cost.include(&closure);
            open.extend(closure.children);
        }
        Ok(cost)
    }

    fn include(&mut self, closure: &Closure<'_>) {
        self.evaluations = self.evaluations.max(closure.evaluations);
        self.fanout = self.fanout.max(closure.fanout());
        self.text = self.text.max(closure.text);
        self.reads = self.reads.max(closure.reads);
        self.names = self.names.max(closure.names);
        self.named = self.named.max(closure.count(&Slot::Names));
        self.depth = self.depth.max(closure.depth);
    }

    /// Says whether the schema has alternatives: one mismatch of them is all of each.
    pub(super) const fn has_alternatives(self) -> bool {
        self.has_alternatives
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
            Value::Object(map) => (self.of_names(map), map.values().fold(0, add)),
            Value::String(text) => (self.of_text(text.len() as u64), 0),
            _ => (0, 0),
        };
        times.saturating_mul(self.evaluations.saturating_add(own)).saturating_add(children)
    }

    /// Returns what so many bytes of text cost.
    fn of_text(self, bytes: u64) -> u64 {
        let read = (bytes / CHARS_PER_VISIT).saturating_mul(self.reads);
        read.saturating_add(bytes.saturating_mul(self.text))
    }

    /// Returns what the names of an object cost.
    fn of_names(self, map: &Map<String, Value>) -> u64 {
        let bytes: u64 = map.keys().map(|name| name.len() as u64).sum();
        let each = self.evaluations.saturating_mul(map.len() as u64);
        let as_values = self.named.saturating_mul(self.of_text(bytes).saturating_add(each));
        bytes.saturating_mul(self.names).saturating_add(as_values)
    }
}

/// Refuses identifiers of schemas below the root: to a validator what has one is another document,
/// in which `#` is another place, or which stands in for the whole.
fn refuse_inner_ids(root: &Value) -> Result<(), String> {
    let is_draft_4 = |node: &Value| {
        node.get("$schema").and_then(Value::as_str).is_some_and(|uri| uri.contains("draft-04"))
    };
    let id = if any(root, &is_draft_4) { "id" } else { "$id" };
    let is_text = |node: &Value, key: &str| node.get(key).is_some_and(Value::is_string);
    let has_id =
        |node: &Value| !std::ptr::eq(node, root) && (is_text(node, id) || is_text(node, "$id"));
    if any_schema(root, &has_id) {
        return Err(format!("`{id}` inside a schema is not followed; refer with `#/$defs/…`"));
    }
    Ok(())
}

/// Says whether a node names a dialect that has formats and contents looked at; since 2019-09 they are only told.
fn is_of_older_dialect(node: &Value) -> bool {
    let dialect = node.get("$schema");
    dialect.is_some_and(|uri| uri.as_str().is_none_or(|uri| !uri.contains("/draft/20")))
}

/// Which children of a value a subschema visits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Slot<'a> {
    /// Every element of an array.
    Elements,
    /// The element at one place.
    Element(usize),
    /// The names of an object, which have no children.
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
    /// How deep subschemas for the same value are nested in it.
    depth: u64,
    text: u64,
    reads: u64,
    names: u64,
    slots: BTreeMap<Slot<'a>, u64>,
    children: Vec<&'a Value>,
}

impl Closure<'_> {
    fn count(&self, slot: &Slot<'_>) -> u64 {
        self.slots.get(slot).copied().unwrap_or_default()
    }

    fn fanout(&self) -> u64 {
        let most = |wanted: fn(&Slot<'_>) -> bool| {
            self.slots
                .iter()
                .filter(|(slot, _)| wanted(slot))
                .map(|(_, count)| *count)
                .max()
                .unwrap_or_default()
        };
        let property = most(|slot| matches!(slot, Slot::Property(_)));
        let element = most(|slot| matches!(slot, Slot::Element(_)));
        let property = property.saturating_add(self.count(&Slot::Properties));
        property.max(element.saturating_add(self.count(&Slot::Elements)))
    }

    /// Counts all of it so many times.
    fn repeat(&mut self, times: u64) {
        self.evaluations = self.evaluations.saturating_mul(times);
        self.text = self.text.saturating_mul(times);
        self.reads = self.reads.saturating_mul(times);
        self.names = self.names.saturating_mul(times);
        self.slots.values_mut().for_each(|count| *count = count.saturating_mul(times));
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
    /// Formats and contents are looked at.
    has_parsed: bool,
    /// Bytes of compiled patterns that the schema may still have.
    patterns_left: u64,
    /// Bytes that it and others together may still have.
    all_left: &'a mut u64,
    /// By the node's address; none while the node is being analysed.
    closures: HashMap<usize, Option<Closure<'a>>>,
    taken_over_left: usize,
}

impl<'a> Analysis<'a> {
    fn closure(&mut self, node: &'a Value, nesting: usize) -> Result<Closure<'a>, String> {
        match self.closures.get(&address(node)) {
            Some(Some(known)) => {
                let known = known.clone();
                return self.take_over(&known).map(|()| known);
            }
            Some(None) => {
                return Err("a subschema refers to itself without going into the value".to_owned());
            }
            None if nesting == 0 => {
                return Err(format!("subschemas are nested over {SCHEMA_NESTING_MAX} levels"));
            }
            None => {}
        }
        self.closures.insert(address(node), None);
        let closure = match node {
            Value::Object(keywords) => self.object(keywords, nesting)?,
            _ => Closure { evaluations: 1, depth: 1, ..Closure::default() },
        };
        self.take_over(&closure)?;
        self.closures.insert(address(node), Some(closure.clone()));
        Ok(closure)
    }

    /// Counts a copy, which whoever refers to it takes over.
    fn take_over(&mut self, closure: &Closure<'_>) -> Result<(), String> {
        let entries = closure.slots.len() + closure.children.len();
        let left = self.taken_over_left.checked_sub(entries);
        self.taken_over_left = left.ok_or("too many properties in combined subschemas")?;
        Ok(())
    }

    fn object(
        &mut self,
        keywords: &'a Map<String, Value>,
        nesting: usize,
    ) -> Result<Closure<'a>, String> {
        let evaluations = keywords.len() as u64 + 1;
        let mut closure = Closure { evaluations, depth: 1, ..Closure::default() };
        for (keyword, value) in keywords {
            match keyword.as_str() {
                "$dynamicRef" | "$recursiveRef" => {
                    return Err(format!("`{keyword}` is not followed; use `$ref`"));
                }
                "const" | "enum" | "required" | "dependentRequired" => {
                    closure.evaluations = closure.evaluations.saturating_add(size(value))
                }
                "pattern" => {
                    let weight = self.pattern(value.as_str().unwrap_or_default())?;
                    closure.text = closure.text.saturating_add(weight);
                }
                "maxLength" | "minLength" => closure.reads = closure.reads.saturating_add(1),
                "contentEncoding" | "contentMediaType" | "format" if self.has_parsed => {
                    closure.reads = closure.reads.saturating_add(PARSING_READS)
                }
                "multipleOf" if value.is_f64() => {
                    closure.evaluations = closure.evaluations.saturating_add(FRACTION_VISITS)
                }
                "uniqueItems" => {
                    closure.evaluations = closure.evaluations.saturating_add(UNIQUE_VISITS)
                }
                _ => self.keyword(keywords, (keyword.as_str(), value), &mut closure, nesting)?,
            }
        }
        closure.repeat(evaluated_again(keywords, closure.depth));
        Ok(closure)
    }

    fn keyword(
        &mut self,
        beside: &Map<String, Value>,
        (keyword, value): (&str, &'a Value),
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
        if let ("dependencies", Value::Object(names)) = (keyword, value) {
            let listed: u64 = names.values().filter(|names| names.is_array()).map(size).sum();
            into.evaluations = into.evaluations.saturating_add(listed);
        }
        for (slot, node) in descending(beside, keyword, value) {
            if let Some(slot) = slot {
                *into.slots.entry(slot).or_default() += 1;
            }
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
        let elsewhere = || format!("`$ref` to {reference:?} is not fetched");
        let fragment = reference.strip_prefix('#').ok_or_else(elsewhere)?;
        if fragment.is_empty() {
            return Ok(self.root);
        }
        if !fragment.starts_with('/') {
            return Err(format!(
                "`$ref` to the name {reference:?} is not followed; refer with `#/$defs/…`"
            ));
        }
        let pointer = percent_decoded(fragment).ok_or_else(missing)?;
        if leads_into_values(&pointer) {
            return Err(format!("`$ref` to {reference:?} leads to a value, and to no schema"));
        }
        self.root.pointer(&pointer).ok_or_else(missing)
    }
}

impl<'a> Closure<'a> {
    /// Adds what a subschema for the same value meets.
    fn add(&mut self, other: Self) {
        self.depth = self.depth.max(other.depth.saturating_add(1));
        self.evaluations = self.evaluations.saturating_add(other.evaluations);
        self.text = self.text.saturating_add(other.text);
        self.reads = self.reads.saturating_add(other.reads);
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

/// Returns the subschemas that a keyword, which stands `beside` others, applies to children of
/// the value, and to which. A child is in one slot of a keyword, or already counted in another.
fn descending<'a>(
    beside: &Map<String, Value>,
    keyword: &str,
    value: &'a Value,
) -> Vec<(Option<Slot<'a>>, &'a Value)> {
    match (keyword, value) {
        ("properties", Value::Object(nodes)) => {
            // No child is named and additional to one object: the additional ones are any.
            let is_any = beside.get("additionalProperties").is_some_and(Value::is_object);
            let slot = |name: &'a String| (!is_any).then_some(Slot::Property(name));
            nodes.iter().map(|(name, node)| (slot(name), node)).collect()
        }
        ("patternProperties", Value::Object(nodes)) => {
            nodes.values().map(|node| (Some(Slot::Properties), node)).collect()
        }
        ("items" | "prefixItems", Value::Array(nodes)) => {
            nodes.iter().enumerate().map(|(at, node)| (Some(Slot::Element(at)), node)).collect()
        }
        // Yes or no, without a look at the child.
        (
            "additionalProperties" | "unevaluatedProperties" | "items" | "additionalItems",
            Value::Bool(_),
        ) => Vec::new(),
        ("additionalProperties" | "unevaluatedProperties", node) => {
            vec![(Some(Slot::Properties), node)]
        }
        ("items" | "additionalItems" | "unevaluatedItems" | "contains", node) => {
            vec![(Some(Slot::Elements), node)]
        }
        ("propertyNames", node) => vec![(Some(Slot::Names), node)],
        _ => Vec::new(),
    }
}

/// Returns how often a subschema is evaluated because of what it says about whatever others
/// leave over: a validator finds that out by evaluating those for the same value again, and
/// those in them once more.
fn evaluated_again(keywords: &Map<String, Value>, depth: u64) -> u64 {
    let has = |keyword: &str| keywords.contains_key(keyword);
    // The names of properties are known without.
    if has("unevaluatedItems") || (has("unevaluatedProperties") && depth > 1) {
        return depth.saturating_add(1);
    }
    1
}

/// Undoes percent-encoding, as the validator does before it follows a pointer.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.extend(digest::unhex(digits)?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
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

    const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";

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
    fn a_text_costs_by_how_often_it_is_read() {
        let (text, times) = ("1".repeat(64_000), 1_000);
        for (keyword, value) in [
            ("minLength", json!(1)),
            ("maxLength", json!(99)),
            ("format", json!("uri")),
            ("contentMediaType", json!("application/json")),
        ] {
            let each: Vec<Value> = (0..times).map(|_| json!({ keyword: value })).collect();
            let cost = |mut schema: Value| {
                schema["$schema"] = json!(DRAFT_7);
                cost_of(&schema).unwrap()
            };
            let read = cost(json!({"anyOf": each})).bound(&json!(text));
            assert!(read > 1_000_000, "{keyword}: {read}");
            let named = cost(json!({"propertyNames": {"anyOf": each}}));
            assert!(named.bound(&json!({ &text: 1 })) > 1_000_000, "{keyword}");
            // What is read once or twice is cheap, however long it is.
            assert!(cost(json!({ keyword: value })).bound(&json!(text)) < 20_000, "{keyword}");
        }
    }

    #[test]
    fn a_format_costs_nothing_where_the_dialect_has_it_only_told() {
        let each: Vec<Value> = (0..1_000).map(|_| json!({"format": "uri"})).collect();
        let newer = "https://json-schema.org/draft/2020-12/schema";
        for (schema, is_read) in [
            (json!({"anyOf": each}), false),
            (json!({"$schema": newer, "anyOf": each}), false),
            (json!({"$schema": DRAFT_7, "anyOf": each}), true),
            (json!({"$schema": newer, "anyOf": each, "$defs": {"a": {"$schema": DRAFT_7}}}), true),
        ] {
            let bound = cost_of(&schema).unwrap().bound(&json!("1".repeat(64_000)));
            assert_eq!(bound > 1_000_000, is_read, "{bound}");
        }
    }

    #[test]
    fn a_fraction_costs_more_than_a_whole_number() {
        let cost = |of: Value| cost_of(&json!({"multipleOf": of})).unwrap().bound(&json!(1e300));
        assert_eq!(cost(json!(0.01)) - cost(json!(2)), FRACTION_VISITS);
    }

    #[test]
    fn a_tree_costs_one_visit_a_node() {
        let schema = json!({
            "type": "object", "properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}},
            "additionalProperties": false,
        });
        let value = json!({"l": {"l": {}, "r": {}}, "r": {"l": {}, "r": {}}});
        assert_eq!(cost_of(&schema).unwrap().fanout, 1);
        assert!(cost_of(&schema).unwrap().bound(&value) < 100);
    }

    #[test]
    fn a_child_is_visited_once_by_an_object_and_by_each_pattern_and_alternative() {
        let (this, any) = (json!({"$ref": "#"}), json!({}));
        for (schema, fanout) in [
            (json!({"properties": {"a": this}, "additionalProperties": this}), 1),
            (json!({"propertyNames": {"type": "string"}, "additionalProperties": any}), 1),
            (json!({"prefixItems": [this], "items": false}), 1),
            (json!({"properties": {"a": this}, "patternProperties": {"a": this, "b": any}}), 3),
            (json!({"anyOf": [{"properties": {"a": this}}, {"additionalProperties": this}]}), 2),
            (
                json!({"anyOf": [
                    {"properties": {"a": this}, "additionalProperties": any},
                    {"properties": {"a": this}, "additionalProperties": any},
                ]}),
                2,
            ),
            (json!({"properties": {"a": this}, "unevaluatedProperties": false}), 1),
            (json!({"anyOf": [{"properties": {"a": this}}], "unevaluatedProperties": false}), 3),
        ] {
            assert_eq!(cost_of(&schema).unwrap().fanout, fanout, "{schema}");
        }
    }

    #[test]
    fn what_is_combined_too_often_is_refused_before_it_takes_memory() {
        let refers = json!({"$ref": "#/$defs/d"});
        let wide = |properties: usize, times: usize| {
            let names: Map<_, _> =
                (0..properties).map(|k| (format!("k{k}"), true.into())).collect();
            cost_of(&json!({"$defs": {"d": {"properties": names}}, "allOf": vec![&refers; times]}))
        };
        assert!(wide(3_300, 3_300).unwrap_err().contains("too many properties"));
        assert!(wide(500, 100).is_ok());
    }

    #[test]
    fn lists_of_names_cost_what_they_hold() {
        let names: Vec<String> = (0..5_000).map(|k| format!("k{k}")).collect();
        for keyword in ["dependentRequired", "dependencies"] {
            let cost = cost_of(&json!({ keyword: {"a": names} })).unwrap();
            assert!(cost.bound(&json!({"a": 1})) > 5_000, "{keyword}");
        }
        let named = json!({"propertyNames": {"enum": names}});
        assert!(cost_of(&named).unwrap().bound(&json!({"a": 1, "b": 1})) > 10_000);
    }

    /// A decoy that is cheap must not be taken for what a validator finds.
    #[test]
    fn references_lead_where_the_validator_goes_or_are_refused() {
        let to = |reference: &str| {
            let Value::Object(mut schema) = chain(30, true) else { unreachable!() };
            let definitions = schema.get_mut("$defs").unwrap();
            definitions["%640"] = json!({"type": "string"});
            definitions["b/c"] = json!({"$ref": "#/$defs/d0"});
            schema.insert("properties".to_owned(), json!({"a": {"$ref": reference}}));
            Value::Object(schema)
        };
        for reference in ["#/$defs/%640", "#/%24defs%2Fd0", "#/$defs/b~1c"] {
            let cost = cost_of(&to(reference)).unwrap();
            assert!(cost.bound(&json!({"a": 1})) > 1 << 30, "{reference}");
        }
        assert!(cost_of(&to("#/$defs/%25640")).unwrap().bound(&json!({"a": 1})) < 1_000);
        for reference in ["#/$defs/%6", "#/$defs/%ff", "#/$defs/%zz", "#d0", "#/$defs/d0/default"] {
            assert!(cost_of(&to(reference)).is_err(), "{reference}");
        }
    }

    #[test]
    fn names_and_documents_inside_a_schema_are_refused() {
        let draft_4 = "http://json-schema.org/draft-04/schema#";
        let named = json!({"$ref": "#x", "$defs": {"a": {"$anchor": "x"}}});
        for schema in [
            named,
            json!({"enum": [{"$anchor": "x"}], "properties": {"a": {"$ref": "#x"}}}),
            json!({"properties": {"a": {"$id": "other", "type": "string"}}}),
            json!({"$defs": {"a": {"$id": "b", "$defs": {"c": {"$ref": "#/$defs/d"}}}}}),
            json!({"$schema": draft_4, "properties": {"a": {"id": "other"}}}),
            json!({"properties": {"a": {"$schema": draft_4, "items": {"id": "other"}}}}),
            json!({"properties": {"default": {"$id": "other"}}}),
            json!({"dependencies": {"default": {"$id": "other"}}}),
            json!({"dependencies": {"const": {"$id": "other"}}}),
            json!({"default": {"$id": "other", "type": "string"}, "$ref": "#/default"}),
        ] {
            assert!(cost_of(&schema).is_err(), "{schema}");
        }
        for schema in [
            json!({"$id": "https://example.test/a", "properties": {"$id": {"type": "string"}}}),
            json!({"$anchor": "x", "properties": {"a": {"id": "no keyword here"}}}),
            json!({"$schema": draft_4, "id": "a", "properties": {"id": {"type": "string"}}}),
            json!({"properties": {"a": {"default": {"$id": "all"}, "examples": [{"$id": "b"}]}}}),
            json!({"$schema": draft_4, "properties": {"default": {"default": {"id": "all"}}}}),
        ] {
            assert!(cost_of(&schema).is_ok(), "{schema}");
        }
    }

    #[test]
    fn endless_references_are_refused() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
            json!({"$dynamicRef": "#x"}),
        ] {
            assert!(cost_of(&schema).is_err(), "{schema}");
        }
    }
}
