//! The `claw://` address scheme: every form of the grammar as its own type.
//!
//! A canonical [`ClawUri`] and an [`AliasUri`] are different types, so an alias cannot reach
//! the wire: only [`AliasUri::canonical`] leads from one to the other, and nothing leads back.
//! Deliberately absent: looking anything up. An address says what is meant, not where it is.
//!
//! RFC 5234 literals ignore case; here scheme, authority and kind are lower case only, because
//! two spellings of one address are one too many for a policy to match. What the grammar allows
//! and no document can be called (`-x`, a namespace `..`) is an address all the same: it is
//! accepted, and leads nowhere. `grammar` compares this parser with the published productions.

use std::fmt;

/// Longest name or namespace, in characters (grammar: `1*63`).
pub const NAME_CHARS_MAX: usize = 63;

const SCHEME: &str = "claw://";

/// One of the eleven kinds of primitive that an address can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A way for people or systems to reach the agent.
    Channel,
    /// Who the agent is, and how freely it may act.
    Identity,
    /// What the agent remembers.
    Memory,
    /// The rules a call has to pass.
    Policy,
    /// A language model endpoint.
    Provider,
    /// What a tool may touch.
    Sandbox,
    /// Instructions that need certain tools.
    Skill,
    /// Several agents that work together.
    Swarm,
    /// Where measurements go.
    Telemetry,
    /// Something the agent can call.
    Tool,
    /// A model of the environment.
    WorldModel,
}

table! {
    /// Returns its segment in an address, and the value of a document's `kind` key.
    pub ALL, Kind::names: (&'static str, &'static str) {
        Channel: ("channel", "Channel"),
        Identity: ("identity", "Identity"),
        Memory: ("memory", "Memory"),
        Policy: ("policy", "Policy"),
        Provider: ("provider", "Provider"),
        Sandbox: ("sandbox", "Sandbox"),
        Skill: ("skill", "Skill"),
        Swarm: ("swarm", "Swarm"),
        Telemetry: ("telemetry", "Telemetry"),
        Tool: ("tool", "Tool"),
        WorldModel: ("world-model", "WorldModel"),
    }
}

impl Kind {
    /// Returns the kind's segment in an address, for example `world-model`.
    pub const fn segment(self) -> &'static str {
        self.names().0
    }

    /// Returns the value of a document's `kind` key, for example `WorldModel`.
    pub const fn document(self) -> &'static str {
        self.names().1
    }

    /// Returns the kind an address segment names; case counts.
    pub fn from_segment(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.segment() == text)
    }

    /// Returns the kind a document's `kind` key names; case counts.
    pub fn from_document(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.document() == text)
    }
}

/// A canonical address: the only form that may travel on a wire.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClawUri {
    /// A primitive of this manifest or this host.
    Local(LocalUri),
    /// A primitive published to a registry. It carries no kind.
    Registry(RegistryUri),
}

/// `claw://local/{kind}/{name}[@{version}]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalUri {
    /// What it is.
    pub kind: Kind,
    /// What it is called; case counts.
    pub name: String,
    /// Which version, where that matters.
    pub version: Option<String>,
}

/// `claw://registry/{namespace}/{name}@{version}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegistryUri {
    /// Whose it is. The grammar allows `.` and `..`: never use it as a path.
    pub namespace: String,
    /// What it is called; case counts.
    pub name: String,
    /// Which version; always there.
    pub version: String,
}

/// `claw://{kind}/{name}`: a short form for manifests, never for a wire.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AliasUri {
    /// What it is.
    pub kind: Kind,
    /// What it is called; case counts.
    pub name: String,
}

/// Why a text is no address of the wanted form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// A short form where only canonical addresses may stand. It is not repeated: what says so may
    /// travel.
    #[error("the short form of an address may stand in a manifest only: write `{0}`")]
    Alias(ClawUri),
    /// The kind is none of the eleven.
    #[error(
        "`{0}` is no kind: write one of identity, provider, channel, tool, skill, memory, world-model, sandbox, policy, swarm, telemetry"
    )]
    Kind(String),
    /// A name that the grammar does not allow.
    #[error("`{0}` is no name: 1 to 63 letters, digits and hyphens")]
    Name(String),
    /// A namespace that the grammar does not allow.
    #[error("`{0}` is no namespace: 1 to 63 letters, digits, hyphens and dots")]
    Namespace(String),
    /// A registry address without a version.
    #[error("`{0}` names no version: a registry address ends in @<version>")]
    NoVersion(String),
    /// Not `claw://`, or the wrong number of segments.
    #[error(
        "`{0}` is no claw:// address: write claw://local/<kind>/<name> or claw://registry/<namespace>/<name>@<version>"
    )]
    Shape(String),
    /// A version that the grammar does not allow.
    #[error("`{0}` is no version: write <major>.<minor>.<patch>, for example 1.2.0 or 1.2.0-rc.1")]
    Version(String),
}

impl ClawUri {
    /// Parses a canonical address.
    ///
    /// # Errors
    /// [`UriError`] says what is wrong; an alias is named as such.
    pub fn parse(text: &str) -> Result<Self, UriError> {
        match ManifestUri::parse(text)? {
            ManifestUri::Alias(alias) => Err(UriError::Alias(alias.canonical())),
            ManifestUri::Canonical(uri) => Ok(uri),
        }
    }

    /// Returns the name of the tool that an address may mean, in whatever version and of whatever registry, else
    /// nothing: of one name there is one tool at most.
    pub fn any_tool_name(text: &str) -> Option<String> {
        match Self::parse(text).ok()? {
            Self::Local(uri) => (uri.kind == Kind::Tool).then_some(uri.name),
            Self::Registry(uri) => Some(uri.name),
        }
    }

    /// Returns the name in `claw://local/tool/<name>`, else nothing: where only names count, an
    /// address with a version would say more than is looked at.
    pub fn parse_tool_name(text: &str) -> Option<String> {
        match Self::parse(text).ok()? {
            Self::Local(uri) if uri.kind == Kind::Tool && uri.version.is_none() => Some(uri.name),
            Self::Local(_) | Self::Registry(_) => None,
        }
    }
}

impl AliasUri {
    /// Returns the canonical address this is short for.
    pub fn canonical(self) -> ClawUri {
        ClawUri::Local(LocalUri { kind: self.kind, name: self.name, version: None })
    }
}

/// Any address a manifest may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestUri {
    /// The short form.
    Alias(AliasUri),
    /// A form that may also travel.
    Canonical(ClawUri),
}

impl ManifestUri {
    /// Parses any form a manifest may hold.
    ///
    /// # Errors
    /// [`UriError`] says what is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Self, UriError> {
        let shape = || UriError::Shape(shorten(text));
        let rest = text.strip_prefix(SCHEME).ok_or_else(shape)?;
        let segments: Vec<&str> = rest.split('/').collect();
        match segments.as_slice() {
            ["local", kind, name] => local(kind, name).map(Self::Canonical),
            ["registry", namespace, name] => registry(namespace, name).map(Self::Canonical),
            // Neither is a kind: a segment is missing.
            ["local" | "registry", _] => Err(shape()),
            [kind, name] => alias(kind, name).map(Self::Alias),
            _ => Err(shape()),
        }
    }

    /// Returns the canonical address meant.
    pub fn canonical(self) -> ClawUri {
        match self {
            Self::Alias(alias) => alias.canonical(),
            Self::Canonical(uri) => uri,
        }
    }
}

fn local(kind: &str, rest: &str) -> Result<ClawUri, UriError> {
    let (name, version) = match rest.split_once('@') {
        Some((name, version)) => (name, Some(checked_version(version)?)),
        None => (rest, None),
    };
    Ok(ClawUri::Local(LocalUri { kind: checked_kind(kind)?, name: checked_name(name)?, version }))
}

fn registry(namespace: &str, rest: &str) -> Result<ClawUri, UriError> {
    let (name, version) = rest.split_once('@').ok_or_else(|| UriError::NoVersion(shorten(rest)))?;
    if !is_namespace(namespace) {
        return Err(UriError::Namespace(shorten(namespace)));
    }
    Ok(ClawUri::Registry(RegistryUri {
        namespace: namespace.to_owned(),
        name: checked_name(name)?,
        version: checked_version(version)?,
    }))
}

fn alias(kind: &str, name: &str) -> Result<AliasUri, UriError> {
    Ok(AliasUri { kind: checked_kind(kind)?, name: checked_name(name)? })
}

fn checked_kind(text: &str) -> Result<Kind, UriError> {
    Kind::from_segment(text).ok_or_else(|| UriError::Kind(shorten(text)))
}

fn checked_name(text: &str) -> Result<String, UriError> {
    if is_name(text) { Ok(text.to_owned()) } else { Err(UriError::Name(shorten(text))) }
}

fn checked_version(text: &str) -> Result<String, UriError> {
    if is_version(text) { Ok(text.to_owned()) } else { Err(UriError::Version(shorten(text))) }
}

/// Keeps a quoted text readable; what is longer is no address anyway.
fn shorten(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 100;
    text.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect()
}

/// Says whether `text` is a name by the grammar: letters, digits and hyphens, 1 to 63.
pub fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    (1..=NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

/// Says whether `text` may be a document's `metadata.name`: a name that starts with a letter
/// or digit.
pub fn is_declared_name(text: &str) -> bool {
    is_name(text) && !text.starts_with('-')
}

fn is_namespace(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    (1..=NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

/// Says whether `text` is a version by the grammar: three numbers, then perhaps `-` and a
/// pre-release. There is no `+build`.
pub fn is_version(text: &str) -> bool {
    const VERSION_BYTES_MAX: usize = 128;
    let (core, pre) = match text.split_once('-') {
        Some((core, pre)) => (core, Some(pre)),
        None => (text, None),
    };
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    let pre_fits = pre.is_none_or(|pre| !pre.is_empty() && pre.bytes().all(allowed));
    text.len() <= VERSION_BYTES_MAX
        && core.split('.').count() == 3
        && core.split('.').all(number)
        && pre_fits
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.document())
    }
}

impl fmt::Display for ClawUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(uri) => uri.fmt(f),
            Self::Registry(uri) => uri.fmt(f),
        }
    }
}

impl fmt::Display for LocalUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}local/{}/{}", self.kind.segment(), self.name)?;
        self.version.as_ref().map_or(Ok(()), |version| write!(f, "@{version}"))
    }
}

impl fmt::Display for RegistryUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}registry/{}/{}@{}", self.namespace, self.name, self.version)
    }
}

#[cfg(test)]
mod grammar;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn canonical_addresses_print_as_they_were_written() {
        for text in [
            "claw://local/identity/research-assistant",
            "claw://local/tool/web-fetch@1.2.0",
            "claw://local/world-model/environment-model",
            "claw://local/tool/-x",
            "claw://local/tool/---",
            "claw://local/tool/a@01.0.0-..",
            "claw://registry/community-skills/deep-research@2.0.0",
            "claw://registry/../x@1.0.0-rc.1",
        ] {
            assert_eq!(ClawUri::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_alias_becomes_canonical_and_is_refused_where_only_canonical_may_stand() {
        let text = "claw://sandbox/network-sandbox";
        let uri = ManifestUri::parse(text).unwrap().canonical();
        assert_eq!(uri.to_string(), "claw://local/sandbox/network-sandbox");
        let error = ClawUri::parse(text).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("write `claw://local/sandbox/network-sandbox`"), "{said}");
        assert!(!said.contains(text), "{said}");
    }

    #[test]
    fn what_the_grammar_does_not_allow_is_refused() {
        let long = format!("claw://local/tool/{}", "a".repeat(64));
        for text in [
            "",
            "claw://",
            "claw://local",
            "claw://local/tool/",
            "claw://local/tool/read_file",
            "claw://local/tool/read file",
            "claw://local/tool/a/b",
            "claw://local/claw/x",
            "claw://local/worldmodel/x",
            "claw://local/tool/a@1.0",
            "claw://local/tool/a@1.0.0+build",
            "claw://local/tool/a@1.0.0-",
            "claw://local/tool/a@",
            "claw://registry/ns/name",
            "claw://registry/ns_x/name@1.0.0",
            "claw://tool/a@1.0.0",
            "CLAW://local/tool/a",
            "claw://LOCAL/tool/a",
            "claw://local/Tool/a",
            "claw:///tool/a",
            "claw://local/tool/é",
            " claw://local/tool/a",
            "claw://local/tool/a\n",
            "mcp://server/tool",
            long.as_str(),
        ] {
            assert!(ManifestUri::parse(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn names_are_case_sensitive() {
        assert_ne!(
            ClawUri::parse("claw://local/tool/Web-Fetch"),
            ClawUri::parse("claw://local/tool/web-fetch")
        );
    }

    #[test]
    fn an_address_of_a_tool_yields_its_name() {
        assert_eq!(ClawUri::parse_tool_name("claw://local/tool/a").as_deref(), Some("a"));
        assert_eq!(ClawUri::parse_tool_name("claw://local/tool/a@1.0.0"), None);
        assert_eq!(ClawUri::parse_tool_name("claw://local/skill/a"), None);
        assert_eq!(ClawUri::parse_tool_name("claw://tool/a"), None);
        assert_eq!(ClawUri::parse_tool_name("claw://registry/n/a@1.0.0"), None);
        let any = ClawUri::any_tool_name;
        for text in
            ["claw://local/tool/a", "claw://local/tool/a@1.0.0", "claw://registry/n/a@1.0.0"]
        {
            assert_eq!(any(text).as_deref(), Some("a"), "{text}");
        }
        for text in ["claw://local/skill/a@1.0.0", "claw://tool/a", "a"] {
            assert_eq!(any(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_parses_prints_back(text in "claw://(local|registry|tool|sandbox)/[a-z.-]{1,8}(/[A-Za-z0-9-]{1,70})?(@[0-9.]{1,8}(-[a-z.]{0,4})?)?") {
            if let Ok(uri) = ClawUri::parse(&text) {
                prop_assert_eq!(uri.to_string(), text);
            }
        }

        #[test]
        fn no_text_panics(text in ".{0,80}") {
            let _ = ManifestUri::parse(&text);
        }
    }
}
