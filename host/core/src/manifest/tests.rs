//! Whole documents in, manifests or problems out; over a map instead of files.

mod fields;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::primitive::{Document, read_document};
use super::problem::Problems;
use super::*;
use crate::grants::{Access, Shell};
use crate::policy::{CallFacts, Scope, Usage, Verdict};

/// Documents that exist in memory only.
#[derive(Default)]
struct Files(BTreeMap<PathBuf, Vec<u8>>);

impl Files {
    fn with(mut self, file: &str, text: &str) -> Self {
        self.0.insert(file.into(), text.as_bytes().to_vec());
        self
    }
}

impl Documents for Files {
    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        let key: PathBuf = file.components().filter(|part| part.as_os_str() != ".").collect();
        self.0.get(&key).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirEntry>> {
        let directory = if directory == Path::new(".") { Path::new("") } else { directory };
        let mut entries = std::collections::BTreeSet::new();
        for file in self.0.keys() {
            let Ok(rest) = file.strip_prefix(directory) else {
                continue;
            };
            let mut parts = rest.components();
            if let Some(first) = parts.next() {
                let name = first.as_os_str().to_owned();
                entries.insert(DirEntry { name, is_directory: parts.next().is_some() });
            }
        }
        Ok(entries.into_iter().collect())
    }

    fn is_directory(&self, path: &Path) -> bool {
        self.0.keys().any(|file| file != path && file.starts_with(path))
    }
}

/// Loads documents into the folder `/here`, beside the built-in profiles.
pub(super) fn load_all(
    docs: &dyn Documents,
    paths: &[&str],
) -> Result<Manifest, Vec<DocumentError>> {
    let directory = Path::new("/here");
    let profiles = builtin_profiles(directory).unwrap();
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    load(docs, &paths, Surroundings { directory, profiles: &profiles })
}

fn load_text(text: &str) -> Result<Manifest, Vec<DocumentError>> {
    load_all(&Files::default().with("m/claw.yaml", text), &["m/claw.yaml"])
}

/// Returns each problem as one line.
fn problems(result: Result<Manifest, Vec<DocumentError>>) -> Vec<String> {
    result.map_or_else(|list| list.iter().map(DocumentError::one_line).collect(), |_| Vec::new())
}

/// Returns the document `d.yaml` of a kind with this spec, in which nothing is wrong.
pub(super) fn document(kind: &str, spec: &str) -> Document {
    let text = format!("claw: '0.3.0'\nkind: {kind}\nmetadata: {{name: n}}\nspec: {spec}\n");
    let read = read_document(Path::new("d.yaml"), text.as_bytes(), &mut Problems::default());
    read.filter(|of| of.sound).unwrap_or_else(|| panic!("{spec}"))
}

const HEAD: &str = r#"claw: "0.3.0"
kind: Claw
metadata:
  name: test-agent
  version: 1.0.0
spec:
  identity: { inline: { personality: careful } }
  providers:
    - inline: { protocol: custom, endpoint: "http://localhost:1", model: m, auth: { type: none } }
"#;

/// Returns the smallest Claw with `rest` in its spec.
pub(super) fn claw(rest: &str) -> String {
    format!("{HEAD}{rest}")
}

const TOOL: &str = r#"claw: "0.3.0"
kind: Tool
metadata:
  name: NAME
  labels: { category: files }
spec:
  description: Does something.
  input_schema: { type: object }
"#;

fn tool(name: &str) -> String {
    TOOL.replace("NAME", name)
}

#[test]
fn a_minimal_claw_is_supervised_and_allows_nothing() {
    let manifest = load_text(&claw("")).unwrap();
    assert_eq!(manifest.name, "test-agent");
    assert_eq!(manifest.version.as_deref(), Some("1.0.0"));
    assert_eq!(manifest.autonomy, Autonomy::Supervised);
    assert!(!manifest.supplied_by_host);
    assert_eq!(manifest.default_profile_name(), "none");
    let built_in = builtin_profiles(Path::new("/here")).unwrap();
    assert!(manifest.profiles.keys().eq(built_in.keys()));
    assert!(matches!(decide(&manifest, "read-file"), Verdict::Deny { rule: None, .. }));
}

fn decide(manifest: &Manifest, tool: &str) -> Verdict {
    let (declared, hints) = (serde_json::Map::new(), crate::catalog::Annotations::default());
    let facts = CallFacts {
        tool,
        category: None,
        declared: &declared,
        hints: &hints,
        paths: None,
        usage: Usage::default(),
    };
    manifest.policies.decide(&facts, Scope::default())
}

#[test]
fn without_a_claw_the_host_supplies_one_that_allows() {
    let manifest = load_all(&Files::default(), &[]).unwrap();
    assert!(manifest.supplied_by_host);
    assert_eq!(manifest.autonomy, Autonomy::Autonomous);
    assert!(matches!(decide(&manifest, "anything"), Verdict::Allow { .. }));
}

#[test]
fn a_policy_of_the_users_own_replaces_the_supplied_one() {
    let policy = "claw: \"0.3.0\"\nkind: Policy\nmetadata: {name: p}\nspec: {rules: [{id: r, action: allow, scope: tool, match: {name: read-*}}]}\n";
    let manifest = load_all(&Files::default().with("p.yaml", policy), &["p.yaml"]).unwrap();
    assert!(matches!(decide(&manifest, "read-file"), Verdict::Allow { .. }));
    assert!(matches!(decide(&manifest, "write-file"), Verdict::Deny { .. }));
}

#[test]
fn a_rule_about_the_days_spending_is_for_every_tool_where_it_tightens() {
    let policy = |action: &str| {
        format!(
            "claw: \"0.3.0\"\nkind: Policy\nmetadata: {{name: p}}\nspec: {{rules: [{{id: r, action: {action}, scope: tool, rate_limit: {{cost_per_day_usd: 5, tokens_per_day: 1000}}}}, {{id: all, action: allow, scope: all}}]}}\n"
        )
    };
    let read = |action| load_all(&Files::default().with("p.yaml", &policy(action)), &["p.yaml"]);
    for action in ["deny", "require-approval"] {
        let manifest = read(action).unwrap();
        assert!(matches!(decide(&manifest, "read-file"), Verdict::Allow { .. }), "{action}");
    }
    let refused = problems(read("allow"));
    assert!(refused.len() == 1 && refused[0].contains("`scope: tool`"), "{refused:?}");
}

#[test]
fn every_form_of_a_tool_entry_is_resolved() {
    let text = claw(
        r#"  tools:
    - ./tools/a.yaml
    - tools/more/*.yaml
    - claw://local/tool/read-file
    - claw://tool/write-file
    - inline: { name: named, description: d, input_schema: {}, sandbox_ref: workspace }
      metadata: { labels: { category: web } }
    - inline: { description: d, input_schema: {}, policy_ref: claw://policy/p }
    - { name: short, sandbox: "claw://sandbox/fs-readonly", policy: "claw://policy/p" }
    - { claw: "0.3.0", kind: Tool, metadata: { name: whole }, spec: { description: d, input_schema: {} } }
  policies:
    - inline: { name: p, rules: [ { id: r, action: allow, scope: all } ] }
"#,
    );
    let files = Files::default()
        .with("m/claw.yaml", &text)
        .with("m/tools/a.yaml", &tool("a"))
        .with("m/tools/more/c.yaml", &tool("c"))
        .with("m/tools/more/b.yaml", &tool("b"))
        .with("m/tools/more/deeper/d.yaml", &tool("d"));
    let manifest = load_all(&files, &["m/claw.yaml"]).unwrap();
    let found: Vec<_> = manifest
        .tools
        .iter()
        .map(|tool| {
            (
                tool.name.as_str(),
                tool.sandbox.as_str(),
                tool.policy.as_deref(),
                tool.category.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("a", "none", None, Some("files")),
            ("b", "none", None, Some("files")),
            ("c", "none", None, Some("files")),
            ("read-file", "none", None, None),
            ("write-file", "none", None, None),
            ("named", "workspace", None, Some("web")),
            ("tool-5", "none", Some("p"), None),
            ("short", "fs-readonly", Some("p"), None),
            ("whole", "none", None, None),
        ]
    );
    assert_eq!(manifest.tools[0].at, "m/tools/a.yaml:4");
}

#[test]
fn the_manifests_sandbox_is_the_default_and_its_paths_start_at_the_manifest() {
    let text = claw(
        r#"  sandbox:
    inline:
      level: process
      capabilities:
        filesystem:
          mode: scoped
          mount_paths: [ { path: ./data, permissions: rw }, { path: /srv/shared, permissions: ro } ]
          denied_paths: [ data/secret ]
        shell: { mode: full }
      resource_limits: { memory_mb: 0, timeout_ms: 1500, max_open_files: 3 }
  tools: [ claw://tool/exec-shell ]
"#,
    );
    let manifest = load_text(&text).unwrap();
    assert_eq!(manifest.tools[0].sandbox, "sandbox-0");
    let grants = manifest.profile("sandbox-0").unwrap().grants(None);
    let mounts: Vec<_> = grants
        .mounts
        .iter()
        .map(|m| (m.host.to_str().unwrap(), m.guest.as_str(), m.access))
        .collect();
    assert_eq!(
        mounts,
        [("/here/m/data", "/", Access::ReadWrite), ("/srv/shared", "/shared", Access::ReadOnly)]
    );
    assert_eq!(grants.denied_paths, [Path::new("/here/m/data/secret")]);
    assert_eq!(grants.shell, Shell::Full);
    assert_eq!(grants.limits.memory_bytes, 0);
    assert_eq!(grants.limits.timeout.as_millis(), 1500);
    assert_eq!(grants.limits.open_files, 3);
}

#[test]
fn a_directory_is_read_without_the_runtime_file_and_a_file_named_twice_is_one() {
    let files = Files::default()
        .with("m/claw.yaml", &claw("  tools: [ tools/a.yaml, b.yaml ]\n"))
        .with("m/b.yaml", &tool("b"))
        .with("m/clawhost.yaml", "version: 1\n")
        .with("m/notes.txt", "not a document")
        .with("m/tools/a.yaml", &tool("a"));
    let manifest = load_all(&files, &["m", "./m/b.yaml"]).unwrap();
    let names: Vec<_> = manifest.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn policies_keep_the_manifests_order_and_loose_ones_come_after() {
    let policy = |name: &str| {
        format!(
            "claw: \"0.3.0\"\nkind: Policy\nmetadata: {{name: {name}}}\nspec: {{rules: [{{id: r, action: deny, scope: all}}]}}\n"
        )
    };
    let files = Files::default()
        .with("claw.yaml", &claw("  policies: [ z.yaml, claw://policy/b ]\n"))
        .with("z.yaml", &policy("z"))
        .with("a.yaml", &policy("a"))
        .with("b.yaml", &policy("b"));
    let manifest = load_all(&files, &["a.yaml", "b.yaml", "claw.yaml"]).unwrap();
    let names: Vec<_> =
        manifest.policies.policies().iter().map(|policy| policy.name.as_str()).collect();
    assert_eq!(names, ["z", "b", "a"]);
}

#[test]
fn every_problem_of_every_document_is_reported() {
    let files = Files::default()
        .with(
            "claw.yaml",
            &claw("  tools: [ a.yaml, gone.yaml, claw://sandbox/none ]\n  colour: red\n"),
        )
        .with("a.yaml", &tool("a").replace("description", "descripton"));
    let list = problems(load_all(&files, &["claw.yaml"]));
    assert_eq!(
        list,
        [
            "claw.yaml:10:20: `gone.yaml` cannot be read: it does not exist (write the path of a document; relative paths start in the manifest's own directory, /here)",
            "claw.yaml:10:31: `claw://sandbox/none` is a Sandbox (write the path of a Tool or `claw://local/tool/<name>` here; a Sandbox belongs under `sandbox:`)",
            "claw.yaml:11:3: unknown key `colour` in `spec` (take it out, or write one of: identity, providers, channels, tools, skills, memory, world_models, sandbox, policies, swarm, telemetry)",
            "a.yaml:7:3: unknown key `descripton` in `spec` (did you mean `description`? possible here: description, input_schema, output_schema, sandbox_ref, policy_ref, mcp_source, annotations, timeout_ms, retry, composite, skill_ref)",
        ]
    );
}

#[test]
fn a_short_form_with_a_version_is_answered_with_the_address_that_has_one() {
    let list = problems(load_text(&claw("  tools: [ claw://tool/read-file@1.0.0 ]\n")));
    assert_eq!(list.len(), 1, "{list:?}");
    assert!(list[0].contains("(write `claw://local/tool/read-file@1.0.0`)"), "{list:?}");
}

#[test]
fn a_pattern_beside_a_manifest_of_the_current_directory_is_expanded() {
    let files = Files::default()
        .with("claw.yaml", &claw("  tools: [ '**/t?.yaml' ]\n"))
        .with("a/b/t1.yaml", &tool("one"))
        .with("t2.yaml", &tool("two"))
        .with(".hidden/t3.yaml", &tool("three"));
    let manifest = load_all(&files, &["claw.yaml"]).unwrap();
    let names: Vec<_> = manifest.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
}

#[test]
fn a_directory_without_a_document_is_a_mistake() {
    let list = problems(load_all(&Files::default().with("m/notes.txt", "x"), &["m"]));
    assert_eq!(list.len(), 1, "{list:?}");
    assert!(list[0].starts_with("m:1:1: the directory holds no document"), "{list:?}");
}

#[test]
fn what_javascript_needs_beside_a_tool_is_no_document_and_any_other_json_is_one() {
    let files = Files::default()
        .with("m/claw.yaml", &claw(""))
        .with("m/package.json", r#"{"private": true}"#);
    assert_eq!(problems(load_all(&files, &["m"])), Vec::<String>::new());
    let files = files.with("m/packages.json", r#"{"private": true}"#);
    let list = problems(load_all(&files, &["m"]));
    assert!(list.iter().any(|one| one.starts_with("m/packages.json:")), "{list:?}");
}

#[test]
fn what_has_no_effect_is_noted() {
    let text = claw(
        r#"  tools:
    - inline: { name: plain, description: d, input_schema: {}, retry: { max_attempts: 2 } }
  policies:
    - inline: { name: p, rules: [ { id: r, action: allow, scope: category, match: { category: web } } ] }
  telemetry: { inline: { exporters: [ { type: console } ], metrics: { prediction_error: true } } }
"#,
    );
    let manifest = load_text(&text).unwrap();
    let expected = [
        "`metrics.prediction_error` is checked",
        "no category rule matches plain: no `metadata.labels.category` is given; for a tool that is listed by its name or address alone, write a Tool document",
        "`retry` of `plain` has no effect",
        "the provider `provider-0` cannot be asked: this version does not speak `protocol: custom`",
    ];
    assert_eq!(manifest.notes.len(), expected.len(), "{:#?}", manifest.notes);
    for (note, part) in manifest.notes.iter().zip(expected) {
        assert!(note.starts_with("m/claw.yaml:") && note.contains(part), "{note}");
    }
}

#[test]
fn a_second_claw_and_a_second_identity_are_refused() {
    let other = claw("").replace("test-agent", "other");
    let files = Files::default().with("a.yaml", &claw("")).with("b.yaml", &other);
    let list = problems(load_all(&files, &["a.yaml", "b.yaml"]));
    assert_eq!(list.len(), 1);
    assert!(list[0].starts_with("b.yaml:4:9: a second Claw: the first is a.yaml:4"), "{list:?}");

    let identity = "claw: \"0.3.0\"\nkind: Identity\nmetadata: {name: x}\nspec: {personality: p}\n";
    let files = Files::default().with("a.yaml", &claw("")).with("x.yaml", identity);
    let list = problems(load_all(&files, &["a.yaml", "x.yaml"]));
    assert!(list[0].starts_with("x.yaml:3:18: a second Identity"), "{list:?}");
}

#[test]
fn without_a_claw_an_identity_still_counts() {
    let identity = "claw: \"0.3.0\"\nkind: Identity\nmetadata: {name: x}\nspec: {personality: p, autonomy: observer}\n";
    let manifest = load_all(&Files::default().with("x.yaml", identity), &["x.yaml"]).unwrap();
    assert_eq!(manifest.autonomy, Autonomy::Observer);
    assert!(manifest.supplied_by_host);
}

#[test]
fn a_rendered_problem_shows_the_line_and_what_would_be_right() {
    let text = tool("a").replace("description", "descripton");
    let list = load_all(&Files::default().with("a.yaml", &text), &["a.yaml"]).unwrap_err();
    let mut shown = String::new();
    miette::NarratableReportHandler::new().render_report(&mut shown, &list[0].report()).unwrap();
    for part in [
        "unknown key `descripton`", "a.yaml", "descripton: Does something.",
        "did you mean `description`?", "-32060",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]
    #[test]
    fn no_damaged_document_panics_the_loader(at in 0usize..2000, cut in 0usize..40, put in ".{0,6}") {
        let text = include_str!("../../../../tests/manifests/valid/all-kinds.yaml");
        let at = text.floor_char_boundary(at.min(text.len()));
        let end = text.floor_char_boundary((at + cut).min(text.len()));
        let damaged = format!("{}{put}{}", &text[..at], &text[end..]);
        for line in problems(load_text(&damaged)) {
            assert!(line.starts_with("m/claw.yaml:"), "{line}");
        }
    }
}

#[test]
fn a_misspelt_name_of_an_inline_entry_is_known() {
    let entry = "{ nam: a, description: d, input_schema: { type: object } }";
    let said = problems(load_text(&claw(&format!("  tools: [{{ inline: {entry} }}]\n"))));
    assert!(said[0].contains("unknown key `nam`"), "{said:?}");
    assert!(said[0].ends_with("(did you mean `name`?)"), "{said:?}");
}

#[test]
fn a_sidecar_is_read_with_the_manifests_names() {
    let manifest = load_text(&claw("")).unwrap();
    let file = Path::new("tools/a.yaml");
    let good = format!("{}  sandbox_ref: workspace\n  timeout_ms: 5\n", tool("a"));
    let binding = manifest.read_sidecar(file, good.as_bytes()).unwrap();
    assert_eq!((binding.name.as_str(), binding.sandbox.as_str()), ("a", "workspace"));
    let bad = format!("{}  sandbox_ref: workspce\n", tool("a"));
    let error = &manifest.read_sidecar(file, bad.as_bytes()).unwrap_err()[0];
    assert_eq!(error.code, PRIMITIVE_NOT_FOUND);
    assert!(
        error.one_line().contains(
            "tools/a.yaml:9:16: there is no Sandbox `workspce` (did you mean `workspace`?"
        ),
        "{}",
        error.one_line()
    );
    assert!(manifest.read_sidecar(file, claw("").as_bytes()).is_err());
}
