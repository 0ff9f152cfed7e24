//! What MCP servers have beside tools, where the runtime file has it served: which kinds there are,
//! what of a server's words is kept, and whose a name is.
//!
//! Each kind of one server is one tool of the catalog. By it policies, approvals and records know it:
//! to read a resource is to call that tool. Deliberately absent: pins. What a resource or a prompt
//! says may be another thing each time, so there is nothing in a list of them to hold on to.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::catalog::ToolDefinition;
use crate::limits::{EXPOSED_ITEM_BYTES_MAX, EXPOSED_NAME_BYTES_MAX};
use crate::visible;

/// What a server can have beside tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExposedKind {
    /// Suggestions for the arguments of its prompts and resource templates.
    Completions,
    /// Messages that a user picks.
    Prompts,
    /// Contents with an address of their own.
    Resources,
}

/// What of a server is served beside its tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exposure {
    /// What it has.
    pub kinds: Vec<ExposedKind>,
    /// What it asks of its callers' clients is passed on to them.
    pub questions: bool,
}

table! {
    /// Returns what the runtime file calls it.
    pub ALL, pub ExposedKind::name: &'static str {
        Completions: "completions", Prompts: "prompts", Resources: "resources",
    }
}

table! {
    /// Returns the method by which it is used, which is also the server's own name of its tool.
    pub ExposedKind::method: &'static str {
        Completions: "completion/complete", Prompts: "prompts/get", Resources: "resources/read",
    }
}

impl ExposedKind {
    /// Returns the lists that a server has of it.
    pub const fn lists(self) -> &'static [List] {
        match self {
            Self::Completions => &[],
            Self::Prompts => &[List::Prompts],
            Self::Resources => &[List::Resources, List::Templates],
        }
    }

    /// Returns the tool that stands for it; its arguments are the parameters of the method.
    pub fn definition(self) -> ToolDefinition {
        let text = json!({"type": "string"});
        let (description, properties, required) = match self {
            Self::Completions => (
                "Completes an argument of a prompt or resource template of this MCP server.",
                json!({"ref": {"type": "object"}, "argument": {"type": "object"}, "context": {"type": "object"}}),
                json!(["ref", "argument"]),
            ),
            Self::Prompts => (
                "Returns the messages of a prompt of this MCP server.",
                json!({"name": text, "arguments": {"type": "object", "additionalProperties": text}}),
                json!(["name"]),
            ),
            Self::Resources => {
                ("Reads a resource of this MCP server.", json!({"uri": text}), json!(["uri"]))
            }
        };
        let input_schema = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        // What the server does meanwhile is not known: no hint is given.
        ToolDefinition::new(self.method().replace('/', "_"), description, input_schema)
    }
}

/// A list that a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum List {
    /// Its prompts.
    Prompts,
    /// Its resources.
    Resources,
    /// Patterns of addresses of more resources.
    Templates,
}

table! {
    /// Returns the member by which an item is asked for.
    List::key: &'static str {
        Prompts: "name", Resources: "uri", Templates: "uriTemplate",
    }
}

table! {
    /// Returns the method that lists it, and the member of the answer that holds it.
    pub List::method: (&'static str, &'static str) {
        Prompts: ("prompts/list", "prompts"), Resources: ("resources/list", "resources"),
        Templates: ("resources/templates/list", "resourceTemplates"),
    }
}

impl List {
    /// Returns the kind it belongs to.
    const fn kind(self) -> ExposedKind {
        match self {
            Self::Prompts => ExposedKind::Prompts,
            Self::Resources | Self::Templates => ExposedKind::Resources,
        }
    }

    /// Returns what is served of an item: the members that are known, without what hides. Nothing of
    /// one whose name is hidden, too long or missing, that is too large, or whose pattern begins with
    /// no text of its own.
    pub fn cleaned(self, raw: &Value) -> Option<Value> {
        let known = KNOWN.iter().filter_map(|key| Some(((*key).to_owned(), raw.get(key)?.clone())));
        let mut item = Value::Object(known.collect::<Map<_, _>>());
        let name = item.get(self.key())?.as_str()?;
        let is_plain = |c: char| visible::is_plain(c) && !c.is_whitespace();
        let is_name =
            (1..=EXPOSED_NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_plain);
        let is_open = self == Self::Templates && name.starts_with('{');
        if !is_name || is_open || item.to_string().len() > EXPOSED_ITEM_BYTES_MAX {
            return None;
        }
        without_hidden(&mut item);
        Some(item)
    }
}

/// What is kept of an item. Deliberately absent: icons, which clients would fetch.
const KNOWN: [&str; 9] = [
    "annotations", "arguments", "description", "mimeType", "name", "size", "title", "uri",
    "uriTemplate",
];

/// Takes what hides out of the texts of `value`, with members whose own names hide something.
/// Bounded by the nesting that JSON from outside may have.
pub fn without_hidden(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_hidden),
        Value::Object(object) => {
            object.retain(|key, _| key.chars().all(visible::is_plain));
            object.values_mut().for_each(without_hidden);
        }
        Value::String(text) => text.retain(visible::is_plain),
        _ => {}
    }
}

/// The lists of one server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Exposed(pub BTreeMap<List, Vec<Value>>);

impl Exposed {
    /// Returns a list.
    fn items(&self, list: List) -> &[Value] {
        self.0.get(&list).map_or(&[], Vec::as_slice)
    }

    /// Says whether it has what is called so. An address is one of its own where it lists it, and
    /// where one of its patterns has room for it.
    fn has(&self, list: List, name: &str) -> bool {
        let is_listed = self.items(list).iter().any(|item| name_of(list, item) == name);
        is_listed || (list == List::Resources && self.has_pattern_of(name))
    }

    fn has_pattern_of(&self, uri: &str) -> bool {
        let mut patterns = self.items(List::Templates).iter();
        patterns.any(|item| fits(name_of(List::Templates, item), uri))
    }
}

/// Returns the name of an item, under which nothing else of its list is known.
pub fn name_of(list: List, item: &Value) -> &str {
    crate::json::text(item, list.key())
}

/// Says whether an address can be one of a template (RFC 6570): its server knows, so what stands
/// before the first and behind the last variable is enough to find it.
fn fits(template: &str, uri: &str) -> bool {
    let before = template.split('{').next().unwrap_or_default();
    let behind = template.rsplit('}').next().unwrap_or_default();
    uri.strip_prefix(before).is_some_and(|rest| rest.ends_with(behind))
}

/// A kind that one server has, and the tool that stands for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Served {
    /// What it is.
    pub kind: ExposedKind,
    /// The tool's MCP name.
    pub tool: String,
    /// What there is.
    pub lists: Arc<Exposed>,
}

/// Says which names several servers have, so that what is called so is served of none of them.
pub fn shared(all: &[Served]) -> Vec<String> {
    let mut owners: BTreeMap<(List, &str), Vec<&str>> = BTreeMap::new();
    for served in all {
        let lists = served.kind.lists().iter();
        for (list, item) in
            lists.flat_map(|list| served.lists.items(*list).iter().map(|it| (*list, it)))
        {
            owners.entry((list, name_of(list, item))).or_default().push(&served.tool);
        }
    }
    for ((_, uri), tools) in owners.iter_mut().filter(|((list, _), _)| *list == List::Resources) {
        let resources = all.iter().filter(|served| served.kind == ExposedKind::Resources);
        let patterned = resources.filter(|served| served.lists.has_pattern_of(uri));
        tools.extend(patterned.map(|served| served.tool.as_str()));
        // One that lists the address as well is one.
        tools.sort_unstable();
        tools.dedup();
    }
    let mut notes: BTreeMap<Vec<&str>, (&str, usize)> = BTreeMap::new();
    for ((_, name), tools) in owners.into_iter().filter(|(_, tools)| tools.len() > 1) {
        notes.entry(tools).or_insert((name, 0)).1 += 1;
    }
    let note = |(tools, (name, count)): (Vec<&str>, _)| {
        format!(
            "{} have {count} names in common, such as `{name}`: nothing of these is served",
            tools.join(" and ")
        )
    };
    notes.into_iter().map(note).collect()
}

/// What of several servers one caller may use. What two of them have under the same name is nobody's,
/// so no server can put its own in the place of another's.
#[derive(Debug)]
pub struct UsableLists<'a>(pub Vec<&'a Served>);

impl<'a> UsableLists<'a> {
    /// Returns the items of a list, in the order of the servers.
    pub fn list(&self, list: List) -> Vec<&'a Value> {
        let all = self.of(list.kind()).flat_map(|served| served.lists.items(list));
        all.filter(|item| self.owner(list, name_of(list, item)).is_some()).collect()
    }

    /// Returns the tool that reads the resource at `uri`. What one server lists takes nothing from
    /// the pattern of another.
    pub fn resource(&self, uri: &str) -> Option<&'a str> {
        self.owner(List::Resources, uri)
    }

    /// Returns the tool that gets the prompt `name`.
    pub fn prompt(&self, name: &str) -> Option<&'a str> {
        self.owner(List::Prompts, name)
    }

    /// Returns the tool that completes arguments of the prompt, or resource template, `name`.
    pub fn completion(&self, list: List, name: &str) -> Option<&'a str> {
        one(self.of(ExposedKind::Completions).filter(|served| served.lists.has(list, name)))
    }

    fn owner(&self, list: List, name: &str) -> Option<&'a str> {
        one(self.of(list.kind()).filter(|served| served.lists.has(list, name)))
    }

    fn of(&self, kind: ExposedKind) -> impl Iterator<Item = &'a Served> {
        self.0.iter().copied().filter(move |served| served.kind == kind)
    }
}

/// Returns the tool of the only one there is.
fn one<'a>(mut found: impl Iterator<Item = &'a Served>) -> Option<&'a str> {
    let first = found.next()?;
    found.next().is_none().then_some(first.tool.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::check_definition;

    fn served(tool: &str, kind: ExposedKind, lists: &[(List, &[&str])]) -> Served {
        let items = |(list, names): &(List, &[&str])| {
            let item = |name: &&str| json!({list.key(): name, "name": name});
            (*list, names.iter().map(item).collect())
        };
        let lists = Arc::new(Exposed(lists.iter().map(items).collect()));
        Served { kind, tool: tool.to_owned(), lists }
    }

    #[test]
    fn each_kind_has_a_sound_tool() {
        for kind in ExposedKind::ALL {
            assert_eq!(check_definition(&kind.definition()), Ok(()), "{kind:?}");
        }
    }

    #[test]
    fn what_two_servers_have_is_nobodys() {
        let a = served("a", ExposedKind::Resources, &[(List::Resources, &["x:1", "x:2"])]);
        let b = served("b", ExposedKind::Resources, &[(List::Resources, &["x:2", "x:3"])]);
        let offers = UsableLists(vec![&a, &b]);
        assert_eq!((offers.resource("x:1"), offers.resource("x:3")), (Some("a"), Some("b")));
        assert_eq!((offers.resource("x:2"), offers.resource("x:4")), (None, None));
        let listed: Vec<_> =
            offers.list(List::Resources).into_iter().map(|item| &item["uri"]).collect();
        assert_eq!(listed, ["x:1", "x:3"]);
        let told = "a and b have 1 names in common, such as `x:2`: nothing of these is served";
        assert_eq!(shared(&[a, b]), [told]);
    }

    #[test]
    fn an_address_of_one_servers_list_and_anothers_pattern_is_nobodys() {
        let a = served("a", ExposedKind::Resources, &[(List::Resources, &["x:1/data", "z:1"])]);
        let b =
            served("b", ExposedKind::Resources, &[(List::Templates, &["x:{id}/data", "y:{id}"])]);
        let offers = UsableLists(vec![&a, &b]);
        assert_eq!((offers.resource("x:1/data"), offers.resource("x:2/data")), (None, Some("b")));
        assert_eq!((offers.resource("z:1"), offers.resource("x:2/other")), (Some("a"), None));
        let listed: Vec<_> =
            offers.list(List::Resources).into_iter().map(|item| &item["uri"]).collect();
        assert_eq!(listed, ["z:1"], "what cannot be read is not listed");
        let c = served("c", ExposedKind::Resources, &[(List::Templates, &["x:{+path}"])]);
        assert_eq!(UsableLists(vec![&a, &b, &c]).resource("x:2/data"), None, "two could have it");
        let told = "a and b have 1 names in common, such as `x:1/data`: nothing of these is served";
        assert_eq!(shared(&[a, b]), [told]);
    }

    #[test]
    fn a_server_may_list_what_its_own_pattern_has_room_for() {
        let lists: &[(List, &[&str])] =
            &[(List::Resources, &["x:1"]), (List::Templates, &["x:{id}"])];
        let a = served("a", ExposedKind::Resources, lists);
        assert_eq!(UsableLists(vec![&a]).resource("x:1"), Some("a"));
        assert_eq!(shared(&[a]), [""; 0]);
    }

    #[test]
    fn completions_are_of_the_server_that_has_the_prompt() {
        let lists: &[(List, &[&str])] = &[(List::Prompts, &["p"]), (List::Templates, &["x:{id}"])];
        let all = ExposedKind::ALL.map(|kind| served(kind.name(), kind, lists));
        let offers = UsableLists(all.iter().collect());
        assert_eq!(offers.prompt("p"), Some("prompts"));
        assert_eq!(offers.completion(List::Prompts, "p"), Some("completions"));
        assert_eq!(offers.completion(List::Templates, "x:{id}"), Some("completions"));
        assert_eq!(offers.completion(List::Prompts, "q"), None);
    }

    #[test]
    fn of_an_item_only_what_is_known_and_plain_is_kept() {
        let raw = json!({"uri": "x:1", "name": "n\u{200b}", "icons": [], "_meta": {}, "size": 3, "annotations": {"a\u{200b}": 1}});
        let kept = json!({"uri": "x:1", "name": "n", "size": 3, "annotations": {}});
        assert_eq!(List::Resources.cleaned(&raw), Some(kept));
        let long = "x".repeat(EXPOSED_ITEM_BYTES_MAX);
        for (list, wrong) in [
            (List::Resources, json!({"name": "n"})),
            (List::Resources, json!({"uri": "x:\u{202e}1"})),
            (List::Resources, json!({"uri": ""})),
            (List::Resources, json!({"uri": "x:1", "description": long})),
            (List::Templates, json!({"uriTemplate": "{+any}"})),
            (List::Prompts, json!({"name": "a b"})),
            (List::Prompts, json!("a")),
        ] {
            assert_eq!(list.cleaned(&wrong), None, "{wrong}");
        }
    }
}
