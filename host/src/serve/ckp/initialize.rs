//! `claw.initialize`: parameters, version, state, manifest, in that order.

use std::sync::Arc;

use clawhost_core::digest;
use clawhost_core::manifest::{SessionErrors, SessionManifest};
use clawhost_core::uri::{ClawUri, ManifestUri, is_version};
use serde_json::{Map, Value, json};

use super::heartbeat;
use super::method::Served;
use super::session::{Agreed, ClawSession};
use crate::gate::SessionTerms;
use crate::offload;
use crate::serve::calls::Calls;
use crate::serve::message::{Fault, Outcome};
use crate::serve::params::Params;

/// The version this host speaks.
const VERSION: &str = "0.3.0";
/// Its minor version and patch.
const VERSION_PARTS: (u64, u64) = (3, 0);
/// What a client of another major is told: the newest, and the one before it. Those of major 0 are all spoken.
const SPOKEN: [&str; 2] = [VERSION, "0.2.0"];
/// The protocol's code for a version that is not spoken here (CKP 0.3.0, section 9.4).
const VERSION_NOT_SUPPORTED: i32 = -32001;
/// The protocol's code for something that does not exist.
const NOT_FOUND: i32 = -32061;
/// A manifest longer than this is read where it holds up nobody, in bytes of its text.
const QUICK_MANIFEST_BYTES: usize = 65_536;

/// What a client asks for, in the right shape.
struct InitializeParams<'a> {
    version: &'a str,
    manifest: &'a Value,
    capabilities: Capabilities,
}

/// What a client wants of the host.
struct Capabilities {
    /// It names none, and so gets all.
    all: bool,
    tools: bool,
    progress: bool,
    memory: bool,
    swarm: bool,
    events: bool,
}

impl<C: Calls> ClawSession<C> {
    pub(super) fn initialize(&self, params: Params<'_>) -> Outcome {
        let asked = InitializeParams::read(params)?;
        let version = agree(asked.version)?;
        let step = self.life().begin()?;
        self.tell(step);
        match self.read_manifest(asked.manifest, &version) {
            Ok(manifest) => Ok(self.begin(&asked, &version, manifest)),
            Err(fault) => {
                let step = self.life().back();
                self.tell(step);
                Err(fault)
            }
        }
    }

    fn read_manifest(&self, value: &Value, version: &str) -> Result<SessionTerms, Fault> {
        if let Value::String(text) = value {
            let message = format!("there is no registry to fetch `{text}` from");
            return Err(Fault::new(NOT_FOUND, message).with("param", "manifest"));
        }
        let long = value.to_string().len() > QUICK_MANIFEST_BYTES;
        let base = self.inner().calls.services().manifest;
        let read = || SessionManifest::read(value, version, &base).map(SessionTerms::new);
        offload::blocking(long, read).map_err(|errors| refused(&errors))
    }

    fn begin(&self, asked: &InitializeParams<'_>, version: &str, manifest: SessionTerms) -> Value {
        let wanted = &asked.capabilities;
        let calls = &self.inner().calls;
        let base = calls.services().manifest;
        let served = Served::by(&base, &calls.catalog());
        let result = json!({
            "protocolVersion": version,
            "agentInfo": {
                "name": base.name,
                "version": base.version.as_deref().unwrap_or(env!("CARGO_PKG_VERSION")),
            },
            "conformanceLevel": served.level(),
            "capabilities": wanted.granted(served),
        });
        let identity = manifest.identity.clone();
        let (progress, reach) = (wanted.progress, self.reach());
        let narrowing = narrowing(asked.manifest);
        let manifest = Arc::new(manifest);
        let agreed = Agreed { served, manifest, narrowing, progress, _reach: reach };
        let heartbeat = base.heartbeat;
        let mut life = self.life();
        let step = life.ready(Arc::new(agreed));
        let stopping = life.stopping().clone();
        drop(life);
        self.tell(step);
        if wanted.events {
            self.follow(&identity, stopping.clone());
        }
        heartbeat::start(heartbeat, self.inner(), stopping);
        result
    }
}

impl<'a> InitializeParams<'a> {
    fn read(params: Params<'a>) -> Result<Self, Fault> {
        let version = params.text("protocolVersion")?;
        if !is_version(version) {
            return Err(params.fault("protocolVersion", "has to be a version such as 0.3.0"));
        }
        let client = Params::within(params.object("clientInfo")?, "clientInfo.");
        client.name("name")?;
        client.name("version")?;
        let manifest = params.any("manifest")?;
        check_form(params, manifest)?;
        let capabilities = Capabilities::read(params.object("capabilities")?)?;
        Ok(Self { version, manifest, capabilities })
    }
}

/// Returns the digest of what a session's manifest narrows: a request of a session that is refused
/// more is another request than that of one that is refused less.
fn narrowing(manifest: &Value) -> String {
    let parts = ["identity", "policies", "sandbox", "tools"];
    let parts = parts.map(|part| manifest.pointer(&format!("/spec/{part}")));
    digest::of_json(&json!(parts))
}

/// A manifest is an object. The protocol's prose also allows an address: only one of a registry
/// can be meant, as an alias never travels and a local one is inside this host.
fn check_form(params: Params<'_>, manifest: &Value) -> Result<(), Fault> {
    match manifest {
        Value::Object(_) => Ok(()),
        Value::String(text) => match ManifestUri::parse(text) {
            Ok(ManifestUri::Canonical(ClawUri::Registry(_))) => Ok(()),
            _ => {
                Err(params.fault("manifest", "has to be an object, or the address of a registry's"))
            }
        },
        _ => Err(params.fault("manifest", "has to be an object")),
    }
}

impl Capabilities {
    fn read(wanted: &Map<String, Value>) -> Result<Self, Fault> {
        let params = Params::within(wanted, "capabilities.");
        let tools = params.object_or_none("tools")?;
        let memory = params.object_or_none("memory")?.is_some();
        let swarm = params.object_or_none("swarm")?;
        let progress = switch(tools, "capabilities.tools.", "progress")?;
        let events = switch(swarm, "capabilities.swarm.", "events")?;
        let swarm = swarm.is_some();
        Ok(Self { all: wanted.is_empty(), tools: tools.is_some(), progress, memory, swarm, events })
    }

    /// Returns what both sides can: everything this host serves where nothing was named.
    fn granted(&self, served: Served) -> Value {
        let mut granted = Map::new();
        if served.tools && (self.all || self.tools) {
            granted.insert("tools".to_owned(), switched("progress", self.progress));
        }
        if served.memory && (self.all || self.memory) {
            granted.insert("memory".to_owned(), json!({}));
        }
        if served.swarm && (self.all || self.swarm) {
            granted.insert("swarm".to_owned(), switched("events", self.events));
        }
        Value::Object(granted)
    }
}

/// Reads a switch of an object that is reached as `at` says: off where that is not there.
fn switch(members: Option<&Map<String, Value>>, at: &str, key: &str) -> Result<bool, Fault> {
    members.map_or(Ok(false), |members| Params::within(members, at).flag(key))
}

fn switched(key: &str, on: bool) -> Value {
    if on { json!({key: true}) } else { json!({}) }
}

/// Returns the version of the session: the client's, or this host's where that is older. Every
/// version of major 0 is spoken (CKP 0.3.0, section 9.3.1).
fn agree(asked: &str) -> Result<String, Fault> {
    let core = asked.split_once('-').map_or(asked, |(core, _)| core);
    // A number beyond all bounds is larger than any version there is.
    let mut parts = core.split('.').map(|part| part.parse().unwrap_or(u64::MAX));
    let mut next = || parts.next().unwrap_or_default();
    let (major, minor, patch) = (next(), next(), next());
    if major != 0 {
        let message = format!("version {} is not spoken here", shown(asked));
        return Err(Fault::new(VERSION_NOT_SUPPORTED, message).with("supported", json!(SPOKEN)));
    }
    let is_older =
        (minor, patch) < VERSION_PARTS || ((minor, patch) == VERSION_PARTS && core != asked);
    Ok(if is_older { asked.to_owned() } else { VERSION.to_owned() })
}

fn shown(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 32;
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

fn refused(errors: &SessionErrors) -> Fault {
    let first = errors.problems.first().map(|problem| problem.reason.as_str()).unwrap_or_default();
    let problems: Vec<Value> = errors
        .problems
        .iter()
        .map(|problem| match &problem.help {
            Some(help) => json!({"at": problem.at, "reason": problem.reason, "help": help}),
            None => json!({"at": problem.at, "reason": problem.reason}),
        })
        .collect();
    Fault::new(errors.code, format!("the manifest is refused: {first}"))
        .with("param", "manifest")
        .with("problems", problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_s_version_is_the_older_one() {
        for (asked, agreed) in [
            ("0.3.0", "0.3.0"),
            ("0.2.0", "0.2.0"),
            ("0.0.1", "0.0.1"),
            ("0.2.9-rc.1", "0.2.9-rc.1"),
            ("0.3.0-rc.1", "0.3.0-rc.1"),
            ("0.3.1", "0.3.0"),
            ("0.3.1-rc.1", "0.3.0"),
            ("0.10.0", "0.3.0"),
            ("0.99999999999999999999999.0", "0.3.0"),
        ] {
            assert_eq!(agree(asked).unwrap(), agreed, "{asked}");
        }
        for asked in ["1.0.0", "99.0.0", "99999999999999999999999.0.0", "1.0.0-0"] {
            let refused = agree(asked).unwrap_err();
            let data = json!({"supported": ["0.3.0", "0.2.0"]});
            assert_eq!((refused.code, Value::Object(refused.data)), (-32001, data));
        }
    }
}
