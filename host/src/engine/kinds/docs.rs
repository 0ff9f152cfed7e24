//! Descriptions of exported functions, from the custom section `package-docs` that WIT tools
//! write: a version byte, then JSON. Whatever is not understood describes nothing.

use clawhost_core::json;
use clawhost_core::limits::COMPONENT_DOCS_BYTES_MAX;
use serde_json::Value;

/// The name of the section.
pub(crate) const SECTION: &str = "package-docs";
/// The versions of the section that are known; both are read alike.
const VERSIONS: [u8; 2] = [0, 1];

/// What a component's author wrote about its functions. Untrusted text.
#[derive(Debug, Default, Clone)]
pub(crate) struct Docs(Value);

impl Docs {
    /// Reads the content of a section; one that is too long or damaged says nothing.
    pub(crate) fn read(section: &[u8]) -> Self {
        let Some((version, text)) = section.split_first() else { return Self::default() };
        if !VERSIONS.contains(version) || section.len() > COMPONENT_DOCS_BYTES_MAX {
            return Self::default();
        }
        Self(json::parse(text).unwrap_or_default())
    }

    /// Returns what is said about a function of the root, or of an interface (its last name).
    pub(super) fn of(&self, interface: Option<&str>, function: &str) -> Option<&str> {
        let worlds = self.0.get("worlds").and_then(Value::as_object);
        let worlds = worlds.into_iter().flat_map(|worlds| worlds.values());
        match interface {
            None => first(worlds, ["func_exports", "funcs"], |world, key| {
                text(world.get(key)?.get(function)?)
            }),
            Some(name) => {
                let places = worlds.chain(std::iter::once(&self.0));
                first(places, ["interface_exports", "interfaces"], |place, key| {
                    text(place.get(key)?.get(name)?.get("funcs")?.get(function)?)
                })
            }
        }
    }
}

fn first<'a>(
    places: impl Iterator<Item = &'a Value>,
    keys: [&str; 2],
    find: impl Fn(&'a Value, &str) -> Option<&'a str>,
) -> Option<&'a str> {
    places.flat_map(|place| keys.map(|key| find(place, key))).flatten().next()
}

fn text(entry: &Value) -> Option<&str> {
    entry.get("docs")?.as_str().filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_worlds_and_interfaces_are_described() {
        let docs = Docs::read(
            b"\x01{\"worlds\":{\"w\":{\"func_exports\":{\"f\":{\"docs\":\"of f\"}}}},
              \"interfaces\":{\"i\":{\"funcs\":{\"g\":{\"docs\":\"of g\"},\"h\":{\"docs\":\" \"}}}}}",
        );
        assert_eq!(docs.of(None, "f"), Some("of f"));
        assert_eq!(docs.of(Some("i"), "g"), Some("of g"));
        for (interface, function) in [(Some("i"), "f"), (None, "g"), (Some("i"), "h")] {
            assert_eq!(docs.of(interface, function), None, "{function}");
        }
    }

    #[test]
    fn what_is_not_understood_describes_nothing() {
        let long = [b"\x01\"".as_slice(), &vec![b'x'; COMPONENT_DOCS_BYTES_MAX], b"\""].concat();
        for section in [&b""[..], b"\x01", b"\x02{}", b"\x01[1]", b"\x01{\"worlds\":7}", &long] {
            assert_eq!(Docs::read(section).of(None, "f"), None);
        }
    }
}
