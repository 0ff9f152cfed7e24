//! The components shipped inside the host.

use claw_guest_artifacts::{Artifact, BUILT_IN};
use clawhost_core::catalog::{Origin, Refused, ckp_name};
use clawhost_core::grants::Shell;
use clawhost_core::manifest::{Manifest, Profile};

use super::Sources;
use super::offer::Offer;
use crate::engine::Source;

/// The components shipped inside the host: names, bytes and digests.
pub const BUILT_IN_COMPONENTS: &[Artifact] = BUILT_IN;

/// What is known of a built-in component before it is loaded.
struct BuiltIn {
    component: &'static str,
    /// What it offers, in order. These names are reserved even while it cannot be loaded: a file must not
    /// inherit what a manifest grants to a built-in tool.
    tools: &'static str,
    /// Its tools ask a person before each call, whatever a policy allows: they are for showing how
    /// approvals work.
    asks: bool,
    /// It is here only where the host was built with the feature `interpreters`.
    optional: bool,
    /// Tools of another component that it offers too, without starting a program: it has them under
    /// profiles whose shell runs inside the sandbox, the other one under all others.
    in_wasm: &'static str,
}

const fn built_in(component: &'static str, tools: &'static str) -> BuiltIn {
    BuiltIn { component, tools, asks: false, optional: false, in_wasm: "" }
}

const TABLE: &[BuiltIn] = &[
    built_in("calculator", "calculator"),
    BuiltIn { optional: true, ..built_in("code", "run_code") },
    built_in("exec", "bash_exec exec_shell spawn"),
    built_in("file-io", "apply_patch edit_file list_directory read_file search_files write_file"),
    BuiltIn { optional: true, ..built_in("js", "js_exec") },
    built_in("key-value", "key_value_store"),
    built_in("memory", "memory_read memory_write"),
    built_in("message", "message"),
    built_in("models", "cost_summary model_list model_prefs"),
    BuiltIn { optional: true, ..built_in("python", "python_exec") },
    BuiltIn { in_wasm: "exec_shell", ..built_in("shell", "wasm_shell") },
    BuiltIn { asks: true, ..built_in("sim", SIMULATED) },
    built_in("web-fetch", "http_get web_fetch web_search"),
];

const SIMULATED: &str = "sim_argocd_fix_apply sim_argocd_investigate sim_argocd_status \
     sim_cost_regression sim_git_pr sim_runtime_research sim_teams_post sim_ticket_read";

/// Returns the built-in tools by their own names.
pub fn built_in_tools() -> impl Iterator<Item = &'static str> + Clone {
    TABLE.iter().flat_map(|row| row.tools.split(' '))
}

/// Returns the CKP names of the built-in tools.
pub fn built_in_names() -> impl Iterator<Item = String> {
    built_in_tools().map(ckp_name)
}

/// Returns the CKP names of the tools that there may be: the built-in ones, those of documents, composites,
/// and what is `offered` beside.
pub fn tool_names(manifest: &Manifest, offered: impl Iterator<Item = String>) -> Vec<String> {
    let bound = manifest.tools.iter().map(|tool| tool.name.clone());
    let own = manifest.governance.composites().map(|composite| ckp_name(&composite.name));
    built_in_names().chain(bound).chain(own).chain(offered).collect()
}

/// Says whether the tools of `origin` ask a person before each call.
pub(super) fn always_asks(origin: &Origin) -> bool {
    row(origin).is_some_and(|row| row.asks)
}

/// Returns what is known of a built-in component.
fn row(origin: &Origin) -> Option<&'static BuiltIn> {
    let Origin::BuiltIn { component } = origin else { return None };
    TABLE.iter().find(|row| row.component == *component)
}

/// Says whether `component` is the one that has its `tool` under `profile`.
pub(super) fn serves(component: &str, tool: &str, profile: Option<&Profile>) -> bool {
    let is_in_wasm = profile.is_some_and(|profile| profile.wasm_shell != Shell::Deny);
    match TABLE.iter().find(|row| row.in_wasm.split_whitespace().any(|name| name == tool)) {
        Some(row) => (row.component == component) == is_in_wasm,
        None => true,
    }
}

/// Says whether the tools of `origin` run scripts inside the sandbox, which the rules of a
/// profile's shell are for.
pub(super) fn is_shell(origin: &Origin) -> bool {
    row(origin).is_some_and(|row| !row.in_wasm.is_empty())
}

/// Says why no component offers the tool of a CKP name, where one could.
pub(super) fn missing(name: &str) -> Option<String> {
    let row = TABLE.iter().filter(|row| row.optional && row.artifact().is_none());
    let tool = row.flat_map(|row| row.tools.split(' ')).find(|tool| ckp_name(tool) == name)?;
    let why = "this clawhost was built without interpreters (cargo feature `interpreters`)";
    Some(format!("there is no `{tool}`: {why}"))
}

impl BuiltIn {
    fn offered(&self) -> impl Iterator<Item = &'static str> {
        self.in_wasm.split_whitespace().chain(self.tools.split(' '))
    }

    fn artifact(&self) -> Option<&'static Artifact> {
        BUILT_IN.iter().find(|artifact| artifact.name == self.component)
    }

    fn is_bound(&self, manifest: &Manifest) -> bool {
        self.offered().any(|tool| {
            let name = ckp_name(tool);
            let mut bindings = manifest.tools.iter().filter(|binding| binding.name == name);
            bindings.any(|it| serves(self.component, tool, manifest.profile(&it.sandbox)))
        })
    }
}

/// Loads the built-in components of which the manifest binds a tool: compiling the others would be
/// for nothing. One that fails is refused; the others still load.
pub(super) async fn load(sources: &Sources) -> Vec<Result<Offer, Refused>> {
    let load = async |artifact: &Artifact| {
        let origin = Origin::BuiltIn { component: artifact.name };
        let bytes = artifact.bytes;
        let component = Source::new(|| Ok(bytes.into())).known(artifact.digest);
        let offer = Offer::load(&sources.engine, origin, component).await;
        let source = format!("built-in component `{}`", artifact.name);
        offer.map_err(|error| Refused::new(&source, &error.to_string()))
    };
    let bound = TABLE.iter().filter(|row| row.is_bound(&sources.manifest));
    futures_util::future::join_all(bound.filter_map(BuiltIn::artifact).map(load)).await
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use clawhost_core::catalog::ToolDefinition;

    use super::*;
    use crate::engine::{CodeCache, Engine};

    /// Returns the cache that all tests of a build share: compiling interpreters takes a minute. Its code is run
    /// under a key that everybody knows, so it lies in the folder of the build or nowhere.
    fn cache(program: &Path) -> Option<CodeCache> {
        let target = program.ancestors().find(|path| path.join("CACHEDIR.TAG").is_file())?;
        Some(CodeCache::open(&target.join("tmp/clawhost"), [7; 32]).unwrap())
    }

    #[test]
    fn compiled_code_is_taken_from_no_folder_that_others_may_write() {
        let folder = tempfile::tempdir().unwrap();
        assert!(cache(&folder.path().join("debug/deps/it")).is_none());
    }

    #[tokio::test]
    async fn the_table_says_what_every_component_offers() {
        let program = std::env::current_exe().unwrap();
        let engine = Arc::new(Engine::new(1, cache(&program)).unwrap());
        let mut loaded = Vec::new();
        for artifact in BUILT_IN_COMPONENTS {
            loaded.push(engine.load(artifact.bytes.to_vec()).await.unwrap());
            let described = &loaded.last().unwrap().definitions;
            let mut offered: Vec<_> = described.iter().map(|tool| &*tool.name).collect();
            offered.sort_unstable();
            let row = TABLE.iter().find(|row| row.component == artifact.name).unwrap();
            let row: Vec<_> = row.offered().collect();
            assert_eq!(offered, row, "{}", artifact.name);
        }
        let definitions = loaded.iter().flat_map(|loaded| &loaded.definitions);
        let twice: Vec<_> = definitions.filter(|tool| tool.name == "exec_shell").collect();
        let [own, other] = twice.as_slice() else { panic!("{twice:?}") };
        assert_eq!(own.output_schema, other.output_schema);
        let plain = |tool: &ToolDefinition| {
            let mut arguments = tool.input_schema["properties"].clone();
            for argument in arguments.as_object_mut().unwrap().values_mut() {
                argument.as_object_mut().unwrap().remove("description");
            }
            (arguments, tool.input_schema["required"].clone())
        };
        assert_eq!(plain(own), plain(other));
        let absent = TABLE.iter().filter(|row| row.artifact().is_none());
        assert!(absent.into_iter().all(|row| row.optional));
    }
}
