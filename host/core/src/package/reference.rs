//! Where a component is: `oci://host[:port]/repository[:tag|@digest]`, `https://…/name.wasm[#digest]`,
//! or `claw://registry/…`.

use std::fmt;

use url::Url;

use crate::digest::is_digest;
use crate::egress;
use crate::uri::{ClawUri, RegistryUri};

/// The tag of a reference that names none, as every client of such registries has it.
const TAG_DEFAULT: &str = "latest";
/// The longest repository, in bytes: with its host it fits into what clients commonly take.
const REPOSITORY_BYTES_MAX: usize = 255;
/// The longest tag, in bytes (OCI distribution specification 1.1).
const TAG_BYTES_MAX: usize = 128;
/// The longest name of a component, in bytes: a file's name, with room for its endings.
const COMPONENT_NAME_BYTES_MAX: usize = 128;

/// Where a component is. It is shown as it stands in a lock file: one spelling for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// In a registry of OCI artifacts.
    Oci(OciReference),
    /// In a registry of this host's own kind.
    Registry(RegistryUri),
    /// At a URL.
    Web(WebReference),
}

/// `oci://host[:port]/repository:tag` or `…@sha256:…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciReference {
    /// `host` or `host:port`, in lower case.
    pub registry: String,
    /// Lower-case names with slashes between them: part of a URL path as it stands.
    pub repository: String,
    /// Which of its artifacts.
    pub version: Version,
}

/// Which artifact of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Version {
    /// `sha256:…` of its manifest: this one, for ever.
    Digest(String),
    /// Whatever the tag means at the moment.
    Tag(String),
}

/// `https://…/name.wasm`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebReference {
    /// The URL, without a fragment.
    pub url: String,
    /// What its fragment `#sha256=…` says of the component; no part of what the reference is.
    pub digest: Option<String>,
}

/// What the file of a component is called, without its ending: no path, and not hidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentName(String);

impl Reference {
    /// Reads a reference.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix("oci://") {
            return OciReference::parse(rest).map(Self::Oci);
        }
        if text.starts_with("https://") {
            return WebReference::parse(text).map(Self::Web);
        }
        if text.starts_with("claw://") {
            return match ClawUri::parse(text).map_err(|error| error.to_string())? {
                ClawUri::Registry(uri) => Ok(Self::Registry(uri)),
                ClawUri::Local(_) => Err("it names something of this manifest".to_owned()),
            };
        }
        Err("it is none of `oci://host/repository:tag`, `https://host/name.wasm` and `claw://registry/namespace/name@version`".to_owned())
    }

    /// Returns what its component is called where nobody says otherwise.
    ///
    /// # Errors
    /// Its last part can be no name of a file.
    pub fn name(&self) -> Result<ComponentName, String> {
        let last = match self {
            Self::Oci(oci) => oci.repository.rsplit('/').next(),
            Self::Registry(uri) => Some(uri.name.as_str()),
            Self::Web(web) => web.url.rsplit('/').next().and_then(|last| {
                last.split('?').next().map(|last| last.strip_suffix(".wasm").unwrap_or(last))
            }),
        };
        ComponentName::parse(last.unwrap_or_default())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oci(oci) => oci.fmt(f),
            Self::Registry(uri) => uri.fmt(f),
            Self::Web(web) => f.write_str(&web.url),
        }
    }
}

impl OciReference {
    /// Reads what follows `oci://`.
    fn parse(text: &str) -> Result<Self, String> {
        let (registry, path) = text.split_once('/').unwrap_or((text, ""));
        let registry = read_registry(registry)
            .ok_or("its host is none: write oci://host[:port]/repository:tag")?;
        let (repository, version) = match (path.split_once('@'), path.split_once(':')) {
            (Some((repository, digest)), _) if is_digest(digest) => {
                (repository, Version::Digest(digest.to_owned()))
            }
            (Some(_), _) => return Err("behind `@` belongs sha256: and 64 hex digits".to_owned()),
            (None, Some((repository, tag))) => (repository, Version::Tag(tag.to_owned())),
            (None, None) => (path, Version::Tag(TAG_DEFAULT.to_owned())),
        };
        if repository.contains(':') {
            return Err("it has a tag and a digest: write one of them".to_owned());
        }
        if !is_repository(repository) {
            return Err("its repository is none: lower-case letters and digits with `.`, `_`, `-` and `/` between them".to_owned());
        }
        if matches!(&version, Version::Tag(tag) if !is_tag(tag)) {
            return Err("its tag is none: up to 128 letters, digits, `_`, `.` and `-`, the first neither `.` nor `-`".to_owned());
        }
        Ok(Self { registry, repository: repository.to_owned(), version })
    }

    /// Returns the artifact of the same repository whose manifest has this digest.
    #[must_use]
    pub fn at(&self, digest: &str) -> Self {
        Self { version: Version::Digest(digest.to_owned()), ..self.clone() }
    }
}

impl fmt::Display for OciReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { registry, repository, version } = self;
        match version {
            Version::Digest(digest) => write!(f, "oci://{registry}/{repository}@{digest}"),
            Version::Tag(tag) => write!(f, "oci://{registry}/{repository}:{tag}"),
        }
    }
}

impl WebReference {
    fn parse(text: &str) -> Result<Self, String> {
        let mut url = Url::parse(text).map_err(|error| error.to_string())?;
        let digest = match url.fragment().map(|fragment| fragment.split_once('=')) {
            None => None,
            Some(Some(("sha256", hex))) if is_digest(&format!("sha256:{hex}")) => {
                Some(format!("sha256:{hex}"))
            }
            Some(_) => return Err("behind `#` belongs sha256= and 64 hex digits".to_owned()),
        };
        url.set_fragment(None);
        let url = url.to_string();
        egress::endpoint(&url).map_err(|denied| denied.internal())?;
        Ok(Self { url, digest })
    }
}

impl ComponentName {
    /// Reads a name.
    ///
    /// # Errors
    /// It could be hidden, a path, or too long.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        let is_name = text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.len() <= COMPONENT_NAME_BYTES_MAX
            && text.bytes().all(fits);
        if is_name {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "{text:?} can be no component's name: letters, digits, `.`, `_` and `-`, the first a letter or digit"
        ))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns `host` or `host:port` in its one spelling.
pub(crate) fn read_registry(text: &str) -> Option<String> {
    let url = Url::parse(&format!("https://{text}/")).ok()?;
    egress::endpoint(url.as_str()).ok()?;
    let is_plain = url.path() == "/" && !text.contains(['?', '#', '/', '\\']);
    // The port is kept where it is the usual one of https: another scheme has another.
    let port = text.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let host = url.host_str().filter(|_| is_plain)?;
    Some(port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// The grammar of the OCI distribution specification: parts with slashes between them, each of
/// letters and digits with one separator at a time.
fn is_repository(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        let mut separators = part.split(is_letter).filter(|between| !between.is_empty());
        part.starts_with(is_letter)
            && part.ends_with(is_letter)
            && separators.all(|s| matches!(s, "." | "_" | "__") || s.bytes().all(|b| b == b'-'))
    };
    text.len() <= REPOSITORY_BYTES_MAX && text.split('/').all(is_part)
}

fn is_tag(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    !text.is_empty()
        && text.len() <= TAG_BYTES_MAX
        && text.bytes().all(fits)
        && !text.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn every_reference_has_one_spelling_and_a_name() {
        let pinned = format!("oci://oci.example.com/a/b@{DIGEST}");
        let web = format!("https://x.example/d/greet.wasm#{}", DIGEST.replacen(':', "=", 1));
        for (text, shown, name) in [
            ("oci://OCI.example.com/a/b", "oci://oci.example.com/a/b:latest", "b"),
            ("oci://localhost:5000/tools/my-tool:1.2.0", "", "my-tool"),
            ("oci://[::1]:5000/t.x:v", "", "t.x"),
            ("oci://h:443/t:v", "", "t"),
            (pinned.as_str(), "", "b"),
            (web.as_str(), "https://x.example/d/greet.wasm", "greet"),
            ("https://X.example/d/greet.wasm?a=b/c", "https://x.example/d/greet.wasm?a=b/c", "c"),
            ("claw://registry/community/word-count@1.2.0", "", "word-count"),
        ] {
            let reference = Reference::parse(text).unwrap();
            assert_eq!(reference.to_string(), if shown.is_empty() { text } else { shown });
            assert_eq!(reference.name().unwrap().as_str(), name);
            assert_eq!(
                Reference::parse(&reference.to_string()).unwrap().to_string(),
                reference.to_string()
            );
        }
        let Reference::Web(web) = Reference::parse(&web).unwrap() else { panic!() };
        assert_eq!(web.digest.as_deref(), Some(DIGEST));
    }

    #[test]
    fn what_could_lead_elsewhere_is_no_reference() {
        for text in [
            "",
            "greet.wasm",
            "http://x.example/greet.wasm",
            "file:///etc/passwd",
            "oci://",
            "oci://host",
            "oci://host/",
            "oci:///a",
            "oci://u:p@host/a",
            "oci://host/../a",
            "oci://host/a/../../b",
            "oci://host/a//b",
            "oci://host/A",
            "oci://host/a%2fb",
            "oci://host/a?b",
            "oci://host/a#b",
            "oci://host/a___b",
            "oci://host/.a",
            "oci://host/a:",
            "oci://host/a:.b",
            "oci://host/a:b/c",
            "oci://host/a:../../x",
            "oci://host/a@sha256:00",
            "oci://host/a:b@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "oci://host:99999/a",
            "oci://ho st/a",
            "https://u:p@x.example/a.wasm",
            "https://x.example/a.wasm#sha256=00",
            "https://x.example/a.wasm#v1",
            "claw://local/tool/x",
            "claw://registry/n/x",
        ] {
            assert!(Reference::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_is_no_path_and_not_hidden() {
        for text in ["", ".", "..", ".a", "-a", "a/b", "a\\b", "a b", "a\nb", "ä", &"a".repeat(129)]
        {
            assert!(ComponentName::parse(text).is_err(), "{text}");
        }
        assert!(Reference::parse("https://x.example/").unwrap().name().is_err());
        assert!(Reference::parse("https://x.example/a%2f..%2fb.wasm").unwrap().name().is_err());
    }
}
