//! Registries that are maps.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::digest;
use crate::limits::REGISTRY_PACKAGES_MAX;
use crate::manifest::tests::{claw, load_all};
use crate::manifest::{
    Component, DocumentError, Documents, Manifest, Package, RegistryError, SessionManifest,
};
use crate::uri::{Kind, RegistryUri};

/// One Claw, other local files, and what a registry holds by address.
#[derive(Default)]
struct Held {
    files: BTreeMap<PathBuf, String>,
    packages: BTreeMap<String, (String, Option<&'static [u8]>)>,
    asked: RefCell<Vec<String>>,
}

impl Held {
    fn claw(rest: &str) -> Self {
        Self::default().file("claw.yaml", claw(rest))
    }

    fn file(mut self, name: &str, text: impl Into<String>) -> Self {
        self.files.insert(name.into(), text.into());
        self
    }

    fn package(mut self, uri: &str, document: impl Into<String>) -> Self {
        self.packages.insert(uri.to_owned(), (document.into(), None));
        self
    }

    fn with_component(mut self, uri: &str, document: impl Into<String>) -> Self {
        self.packages.insert(uri.to_owned(), (document.into(), Some(b"code")));
        self
    }

    fn load(&self, paths: &[&str]) -> Result<Manifest, Vec<DocumentError>> {
        load_all(self, paths)
    }

    fn loaded(&self) -> Manifest {
        self.load(&["claw.yaml"]).unwrap_or_else(|list| panic!("{}", list[0].one_line()))
    }

    fn refused(&self) -> Vec<(i32, String)> {
        let list = self.load(&["claw.yaml"]).unwrap_err();
        list.iter().map(|problem| (problem.code, problem.one_line())).collect()
    }
}

impl Documents for Held {
    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        let text = self.files.get(file).ok_or(io::ErrorKind::NotFound)?;
        Ok(text.clone().into_bytes())
    }

    fn registry(&self, uri: &RegistryUri) -> Result<Package, RegistryError> {
        self.asked.borrow_mut().push(uri.to_string());
        let found = self.packages.get(&uri.to_string());
        let (document, component) =
            found.ok_or_else(|| RegistryError::NotFound("main".to_owned()))?;
        let component = component.map(|bytes| Component {
            bytes: bytes.into(),
            digest: digest::of_bytes(bytes),
            signature: None,
        });
        Ok(Package {
            registry: "main".to_owned(),
            document: document.clone().into_bytes(),
            digest: digest::of_bytes(document.as_bytes()),
            component,
        })
    }
}

fn document(kind: &str, name: &str, version: &str, spec: &str) -> String {
    format!(
        "claw: \"0.3.0\"\nkind: {kind}\nmetadata: {{ name: {name}, version: {version} }}\nspec: {spec}\n"
    )
}

fn tool(name: &str, more: &str) -> String {
    document("Tool", name, "1.2.0", &format!("{{ description: d, input_schema: {{}}{more} }}"))
}

const FETCH: &str = "claw://registry/community/fetch@1.2.0";

#[test]
fn a_tool_comes_with_its_component_and_everything_it_refers_to() {
    let sandbox = "claw://registry/community/narrow@2.0.0";
    let held = Held::claw(&format!("  tools: [\"{FETCH}\"]\n  sandbox: \"{sandbox}\"\n"))
        .with_component(
            FETCH,
            tool(
                "fetch",
                ", annotations: { readOnlyHint: true }, sandbox_ref: \"claw://registry/community/narrow@2.0.0\"",
            ),
        )
        .package(
            "claw://registry/community/narrow@2.0.0",
            document("Sandbox", "narrow", "2.0.0", "{ level: wasm }"),
        );
    let manifest = held.loaded();
    let binding = &manifest.tools[0];
    assert_eq!((binding.name.as_str(), binding.sandbox.as_str()), ("fetch", "narrow"));
    assert_eq!(binding.registry.as_ref().unwrap().to_string(), FETCH);
    assert_eq!((binding.annotations.len(), binding.declared().len()), (1, 0));
    assert!(manifest.profile("narrow").is_some());
    let fetched = &manifest.fetched;
    assert_eq!(fetched.iter().map(|of| of.kind).collect::<Vec<_>>(), [Kind::Tool, Kind::Sandbox]);
    assert_eq!(*fetched[0].component.as_ref().unwrap().bytes, *b"code");
    assert!(manifest.notes.iter().any(|note| note.contains(FETCH) && note.contains("main")));
}

#[test]
fn a_session_lists_what_a_registry_gave_by_its_own_address_only() {
    let host = Held::claw(&format!("  tools: [\"{FETCH}\"]\n"));
    let host = host.with_component(FETCH, tool("fetch", "")).loaded();
    let is_listed = |address: &str| {
        let provider = json!({
            "protocol": "openai-compatible", "endpoint": "http://localhost:11434/v1",
            "model": "none", "auth": {"type": "none"},
        });
        let sent = json!({
            "kind": "Claw",
            "metadata": {"name": "visitor"},
            "spec": {
                "identity": {"inline": {"personality": "Visits."}},
                "providers": [{"inline": provider}],
                "tools": [address],
            },
        });
        SessionManifest::read(&sent, "0.3.0", &host).is_ok()
    };
    assert!(is_listed(FETCH));
    assert!(!is_listed(&FETCH.replace("community", "other")));
}

#[test]
fn every_kind_of_entry_may_be_an_address_and_keeps_its_place_in_the_list() {
    let rules = "{ rules: [{ id: r, action: allow, scope: all }] }";
    let own = "{ inline: { rules: [{ id: own, action: deny, scope: all }] } }";
    let held = Held::claw(&format!(
        "  policies: [\"claw://registry/n/first@1.0.0\", {own}]\n  sandbox: \"claw://registry/n/box@1.0.0\"\n"
    ))
    .package("claw://registry/n/first@1.0.0", document("Policy", "first", "1.0.0", rules))
    .package("claw://registry/n/box@1.0.0", document("Sandbox", "box", "1.0.0", "{ level: wasm }"));
    let manifest = held.loaded();
    let names: Vec<&str> =
        manifest.policies.policies().iter().map(|policy| policy.name.as_str()).collect();
    assert_eq!(names, ["first", "policy-1"]);
    assert_eq!(manifest.default_profile_name(), "box");
}

#[test]
fn a_local_document_of_that_kind_name_and_version_comes_before_every_registry() {
    let entries = format!("  tools: [\"{FETCH}\", ./fetch.yaml]\n");
    for (held, paths) in [
        (Held::claw(&entries).file("fetch.yaml", tool("fetch", "")), &["claw.yaml"][..]),
        (
            Held::claw(&format!("  tools: [\"{FETCH}\"]\n")).file("loose.yaml", tool("fetch", "")),
            &["claw.yaml", "loose.yaml"],
        ),
    ] {
        let held = held.package(FETCH, "wrong");
        let manifest = held.load(paths).unwrap_or_else(|list| panic!("{}", list[0].one_line()));
        assert_eq!(manifest.tools.len(), 1);
        assert_eq!(manifest.tools[0].registry, None);
        assert_eq!(*held.asked.borrow(), Vec::<String>::new());
    }
}

#[test]
fn another_version_kind_or_name_is_no_local_match() {
    let other = document("Tool", "fetch", "1.2.1", "{ description: d, input_schema: {} }");
    let held = Held::claw(&format!("  tools: [\"{FETCH}\"]\n"))
        .file("loose.yaml", other)
        .package(FETCH, tool("fetch", ""));
    let list = held.load(&["claw.yaml", "loose.yaml"]).unwrap_err();
    assert!(list[0].reason.contains("is taken"), "{}", list[0].reason);
    assert_eq!(*held.asked.borrow(), [FETCH]);
}

#[test]
fn what_is_not_exactly_what_was_asked_for_is_refused() {
    let entry = format!("  tools: [\"{FETCH}\"]\n");
    for (document, says) in [
        (document("Skill", "fetch", "1.2.0", "{}"), "is a Skill"),
        (tool("other", ""), "is called `other`"),
        (
            document("Tool", "fetch", "1.2.1", "{ description: d, input_schema: {} }"),
            "is of version 1.2.1",
        ),
        (
            "claw: \"0.3.0\"\nkind: Claw\nmetadata: { name: fetch, version: 1.2.0 }\nspec: {}\n"
                .to_owned(),
            "is a Claw",
        ),
    ] {
        let refused = Held::claw(&entry).package(FETCH, document).refused();
        let found = refused.iter().any(|(code, line)| *code == -32060 && line.contains(says));
        assert!(found, "{says}: {refused:?}");
    }
}

#[test]
fn what_nobody_has_is_not_found_and_asked_for_once() {
    let held = Held::claw(&format!("  tools: [\"{FETCH}\", \"{FETCH}\"]\n"));
    let refused = held.refused();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].0, -32061);
    assert!(refused[0].1.contains("no registry has it (asked: main)"), "{}", refused[0].1);
    assert_eq!(held.asked.borrow().len(), 1);
}

#[test]
fn what_a_registry_said_drives_no_terminal() {
    struct Shouting(Held);

    impl Documents for Shouting {
        fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
            self.0.read(file)
        }

        fn registry(&self, _uri: &RegistryUri) -> Result<Package, RegistryError> {
            let reason = "sent \u{1b}[2J\n\u{202e}nothing".to_owned();
            Err(RegistryError::Failed { registry: "main".to_owned(), reason })
        }
    }

    let shouting = Shouting(Held::claw(&format!("  tools: [\"{FETCH}\"]\n")));
    let list = load_all(&shouting, &["claw.yaml"]).unwrap_err();
    let line = list[0].one_line();
    assert!(line.contains("the registry `main` sent"), "{line}");
    assert!(line.contains("whoever serves that registry"), "{line}");
    assert!(!line.contains(['\u{1b}', '\n', '\u{202e}']), "{line:?}");
}

#[test]
fn references_inside_a_fetched_document_lead_to_this_manifest_or_a_registry() {
    let refused = Held::claw(&format!("  tools: [\"{FETCH}\"]\n"))
        .package(FETCH, tool("fetch", ", sandbox_ref: elsewhere"))
        .refused();
    let (code, line) = &refused[0];
    assert_eq!(*code, -32061);
    assert!(line.starts_with(FETCH) && line.contains("there is no Sandbox `elsewhere`"), "{line}");
    let built_in = Held::claw(&format!("  tools: [\"{FETCH}\"]\n"))
        .package(FETCH, tool("fetch", ", sandbox_ref: \"claw://sandbox/network\""))
        .loaded();
    assert_eq!(built_in.tools[0].sandbox, "network");
}

#[test]
fn a_policy_that_is_only_referred_to_adds_no_rules() {
    let rules = "{ rules: [{ id: r, action: allow, scope: all }] }";
    let lax = "claw://registry/n/lax@1.0.0";
    let with = |more: &str| {
        Held::claw(&format!("  tools: [\"{FETCH}\"]\n{more}"))
            .package(FETCH, tool("fetch", &format!(", policy_ref: \"{lax}\"")))
            .package(lax, document("Policy", "lax", "1.0.0", rules))
    };
    let refused = with("").refused();
    assert!(refused[0].1.contains("is referred to and not listed"), "{refused:?}");
    let listed = with(&format!("  policies: [\"{lax}\"]\n")).loaded();
    assert_eq!(listed.tools[0].policy.as_deref(), Some("lax"));
}

#[test]
fn a_fetched_tool_chooses_no_fetched_sandbox_and_no_category() {
    let wide = "claw://registry/n/wide@1.0.0";
    let with = |more: &str| {
        let document = tool("fetch", &format!(", sandbox_ref: \"{wide}\""));
        let document = document
            .replace("version: 1.2.0 }", "version: 1.2.0, labels: { category: harmless } }");
        Held::claw(&format!("  tools: [\"{FETCH}\"{more}]\n"))
            .package(FETCH, document)
            .package(wide, document_of_wide())
    };
    let refused = with("").refused();
    assert!(refused[0].1.contains("is referred to and not listed"), "{refused:?}");
    let named = with(&format!(", {{ name: read-file, sandbox: \"{wide}\" }}")).loaded();
    assert_eq!((named.tools[0].sandbox.as_str(), &named.tools[0].category), ("wide", &None));
    let note = "its category `harmless` does not count";
    assert!(named.notes.iter().any(|said| said.contains(note)), "{:?}", named.notes);
}

fn document_of_wide() -> String {
    document("Sandbox", "wide", "1.0.0", "{ level: wasm }")
}

#[test]
fn what_names_secrets_or_sends_data_is_not_fetched() {
    let provider = |auth: &str| {
        format!("{{ protocol: custom, endpoint: \"http://localhost:1\", model: m, auth: {auth} }}")
    };
    let uri = "claw://registry/n/x@1.0.0";
    let channel = "{ type: cli, transport: polling, auth: { secret_ref: s } }";
    for (key, kind, spec) in [
        ("telemetry", "Telemetry", "{ exporters: [{ type: console }] }"),
        (
            "telemetry",
            "Telemetry",
            "{ exporters: [{ type: webhook, endpoint: \"https://a.example\", auth: { secret_ref: s } }] }",
        ),
        ("channels", "Channel", channel),
    ] {
        let entry = if kind == "Channel" { format!("[{uri:?}]") } else { format!("{uri:?}") };
        let refused = Held::claw(&format!("  {key}: {entry}\n"))
            .package(uri, document(kind, "x", "1.0.0", spec))
            .refused();
        let found = refused.iter().any(|(_, line)| line.contains("write this document yourself"));
        assert!(found, "{kind}: {refused:?}");
    }
    let with_fallback = |auth: &str| {
        let fallback = format!(
            "  tools: []\n  providers: [{{ inline: {{ protocol: custom, endpoint: \"http://localhost:1\", model: m, auth: {{ type: none }}, fallback: [{{ provider_ref: {uri:?} }}] }} }}]\n"
        );
        let mut held = Held::claw("");
        let claw = held.files[Path::new("claw.yaml")].clone();
        let (head, _) = claw.split_once("  providers:").unwrap();
        held = held.file("claw.yaml", format!("{head}{fallback}"));
        held.package(uri, document("Provider", "x", "1.0.0", &provider(auth)))
    };
    assert_eq!(with_fallback("{ type: none }").loaded().providers.len(), 2);
    for auth in ["{ type: bearer, secret_ref: s }", "{ type: none, secret_ref: s }"] {
        let refused = with_fallback(auth).refused();
        let found = refused.iter().any(|(_, line)| line.contains("write this document yourself"));
        assert!(found, "{auth}: {refused:?}");
    }
}

#[test]
fn a_fetched_document_names_no_path_of_this_machine() {
    let spec = "{ level: wasm, capabilities: { filesystem: { mode: scoped, mount_paths: [{ path: /etc, permissions: ro }] } } }";
    let refused = Held::claw("  sandbox: \"claw://registry/n/box@1.0.0\"\n")
        .package("claw://registry/n/box@1.0.0", document("Sandbox", "box", "1.0.0", spec))
        .refused();
    let found = refused.iter().any(|(_, line)| line.contains("a path of this machine"));
    assert!(found, "{refused:?}");
}

#[test]
fn only_a_tool_brings_a_component() {
    let refused = Held::claw("  sandbox: \"claw://registry/n/box@1.0.0\"\n")
        .with_component(
            "claw://registry/n/box@1.0.0",
            document("Sandbox", "box", "1.0.0", "{ level: wasm }"),
        )
        .refused();
    assert!(refused[0].1.contains("a Sandbox with a component"), "{refused:?}");
}

fn skill(number: usize, needs: &str) -> String {
    let spec = format!("{{ description: d, tools_required: [fetch], instruction: i{needs} }}");
    document("Skill", &format!("s{number}"), "1.0.0", &spec)
}

#[test]
fn cycles_end_and_chains_are_bounded() {
    let uri = |number: usize| format!("claw://registry/n/t{number}@1.2.0");
    let chain = |count: usize, close: bool| {
        let mut held = Held::claw(&format!("  tools: [\"{}\"]\n", uri(0)));
        for number in 0..count {
            let next = if close { (number + 1) % count } else { number + 1 };
            let skill_uri = format!("claw://registry/n/s{number}@1.0.0");
            let spec = format!(", skill_ref: \"{skill_uri}\"");
            held = held.package(&uri(number), tool(&format!("t{number}"), &spec)).package(
                &skill_uri,
                skill(number, "").replace("[fetch]", &format!("[\"{}\"]", uri(next))),
            );
        }
        held
    };
    let cycle = chain(3, true);
    assert_eq!(cycle.loaded().fetched.len(), 6);
    assert_eq!(cycle.asked.borrow().len(), 6);
    let endless = chain(REGISTRY_PACKAGES_MAX, false);
    let refused = endless.refused();
    assert!(refused.iter().any(|(_, line)| line.contains("documents from registries")));
    assert_eq!(endless.asked.borrow().len(), REGISTRY_PACKAGES_MAX);
}
