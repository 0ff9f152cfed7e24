//! A host in a temporary folder: its documents, its workspace, its record, and canaries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clawhost::approvals::{Answer, Approver, Pending};
use clawhost::engine::CodeCache;
use clawhost::host::{Principal, ToolCall};
use clawhost::registry::{FileDocuments, Releases, contexts};
use clawhost::secrets::Secrets;
use clawhost::{BuildError, Host, HostBuilder};
use clawhost_core::error::CallError;
use clawhost_core::manifest::{self, LimitSettings, Settings, Surroundings};
use clawhost_core::reply::{Content, ToolReply};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::canary::Canaries;
use crate::guest::{Expected, Guest};
use crate::wait;

/// Key of the shared cache of compiled code: tests trust their own build folder.
const CACHE_KEY: [u8; 32] = [7; 32];
/// Calls at once where a test does not say: a small pool is made quickly.
const CALLS_RUNNING: usize = 8;
/// What every built-in tool but those with other powers is called in a manifest.
const FILE_TOOLS: [&str; 6] =
    ["read-file", "write-file", "edit-file", "list-directory", "memory-read", "memory-write"];

/// A call that goes on by itself.
pub type Begun = JoinHandle<Result<ToolReply, CallError>>;

/// A host to test, with its folders. They go when it goes.
#[derive(Debug)]
pub struct TestHost {
    host: Host,
    folder: TempDir,
    canaries: Canaries,
    secrets: Secrets,
}

/// What a [`TestHost`] is made of.
///
/// Unless told otherwise: the built-in file and memory tools and every dropped-in guest under
/// one profile that grants `workspace` for reading and writing and 10 s a call, an
/// autonomous identity, a policy that allows everything, and no quarantine, as many tests let a
/// tool fail again and again.
#[derive(Debug)]
pub struct TestHostBuilder {
    folder: TempDir,
    tools: Vec<String>,
    rules: String,
    autonomy: String,
    permissions: String,
    denied_paths: String,
    limits: BTreeMap<String, u64>,
    capabilities: String,
    documents: Vec<PathBuf>,
    level: String,
    runtime_file: String,
    definitions: String,
    provider: String,
    secrets: Secrets,
    host_limits: LimitSettings,
    releases: Option<Releases>,
    extend: fn(HostBuilder) -> HostBuilder,
}

impl TestHost {
    /// Starts with an empty folder.
    pub fn builder() -> TestHostBuilder {
        let folder = tempfile::tempdir().unwrap();
        for name in ["workspace", "tools", "audit", "outside"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        TestHostBuilder {
            folder,
            tools: FILE_TOOLS.map(str::to_owned).to_vec(),
            rules: "- {id: allow, action: allow, scope: all}".to_owned(),
            autonomy: "autonomous".to_owned(),
            permissions: "rw".to_owned(),
            denied_paths: String::new(),
            // What does not hang ends by then on a busy machine too.
            limits: BTreeMap::from([("timeout_ms".to_owned(), 10_000)]),
            capabilities: String::new(),
            documents: Vec::new(),
            level: "wasm".to_owned(),
            runtime_file: "version: 1\nimmune: { enabled: false }".to_owned(),
            definitions: "version: 1\ntools: {}".to_owned(),
            provider: "endpoint: \"http://127.0.0.1:9/v1\"".to_owned(),
            secrets: Secrets::none(),
            host_limits: LimitSettings {
                calls_running_max: CALLS_RUNNING,
                ..LimitSettings::default()
            },
            releases: None,
            extend: |host| host,
        }
    }

    /// Returns the host itself.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the folder of all that is this host's.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the granted folder.
    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// Returns the drop-in directory.
    pub fn tools_folder(&self) -> PathBuf {
        self.folder.path().join("tools")
    }

    /// Returns the canaries outside the granted folder.
    pub fn canaries(&self) -> &Canaries {
        &self.canaries
    }

    /// Calls `tool` with `arguments`.
    ///
    /// # Errors
    /// Whatever the host answers.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<ToolReply, CallError> {
        self.host.call(call(tool, arguments)).await
    }

    /// Calls `tool` and returns its structured result.
    ///
    /// # Panics
    /// Where the call fails.
    pub async fn ask(&self, tool: &str, arguments: Value) -> Value {
        let reply = self.call(tool, arguments).await.unwrap();
        assert!(!reply.is_error, "{tool}: {}", text(&reply));
        reply.structured.clone().unwrap_or_else(|| Value::from(text(&reply)))
    }

    /// Begins a call of `tool` with `arguments`.
    pub fn begin(&self, tool: &str, arguments: Value) -> Begun {
        self.begin_call(call(tool, arguments))
    }

    /// Begins a call.
    pub fn begin_call(&self, call: ToolCall) -> Begun {
        let host = self.host.clone();
        tokio::spawn(async move { host.call(call).await })
    }

    /// Waits until `count` calls have arrived, those that tools make among them.
    ///
    /// # Panics
    /// Where they do not.
    pub async fn arrived(&self, count: usize) {
        let received = || self.records().iter().filter(|it| it["event"] == "call.received").count();
        wait::until("the calls to arrive", || (received() >= count).then_some(())).await;
    }

    /// Waits until a person is asked `count` questions, and returns them.
    ///
    /// # Panics
    /// Where there are not so many.
    pub async fn asked(&self, count: usize) -> Vec<Pending> {
        wait::until("the questions", || {
            let found = self.host.approvals().pending();
            (found.len() == count).then_some(found)
        })
        .await
    }

    /// Waits until a person is asked, answers as the operator, and returns the question.
    ///
    /// # Panics
    /// Where nobody is asked.
    pub async fn answer(&self, answer: Answer) -> Pending {
        let question = self.asked(1).await.remove(0);
        let approvals = self.host.approvals();
        assert!(approvals.answer(&question.id, None, answer, &Approver::Operator).await);
        question
    }

    /// Returns the names of the tools in service.
    pub fn names(&self) -> Vec<String> {
        self.host.catalog().tools().map(|tool| tool.definition.name.clone()).collect()
    }

    /// Returns the reasons of everything that was refused, one a line, with its source.
    pub fn refused(&self) -> String {
        let catalog = self.host.catalog();
        let lines =
            catalog.refused.iter().map(|refused| format!("{}: {}", refused.source, refused.reason));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Opens the folder of the record.
    pub fn audit(&self) -> Dir {
        Dir::open_ambient_dir(self.folder.path().join("audit"), ambient_authority()).unwrap()
    }

    /// Returns all records, oldest first.
    ///
    /// # Panics
    /// Where they cannot be read.
    pub fn records(&self) -> Vec<Value> {
        clawhost::audit::records(&self.audit()).unwrap()
    }

    /// Returns the closing records of all calls, oldest first.
    pub fn finished(&self) -> Vec<Value> {
        self.records().into_iter().filter(|record| record["event"] == "call.finished").collect()
    }

    /// Checks the record: the chain holds, and every call that was opened was closed once.
    ///
    /// # Panics
    /// Where it does not.
    pub fn check_audit(&self) {
        let reports =
            clawhost::audit::verify(&self.audit(), &clawhost::audit::Trust::default()).unwrap();
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert!(reports[0].broken.is_none() && reports[0].unfinished_calls == 0, "{reports:?}");
        let records = self.records();
        let of = |event: &str| {
            let mut calls: Vec<Value> = records
                .iter()
                .filter(|record| record["event"] == event)
                .map(|record| record["call"].clone())
                .collect();
            calls.sort_by_key(Value::to_string);
            calls
        };
        assert_eq!(of("call.received"), of("call.finished"));
    }
}

impl Drop for TestHost {
    /// No secret is in the record.
    fn drop(&mut self) {
        let audit = self.folder.path().join("audit");
        crate::leaks::check_files(&self.secrets.redactor(), &audit, &[]);
    }
}

impl TestHostBuilder {
    /// Puts a file into the granted folder.
    #[must_use]
    pub fn file(self, name: &str, text: &str) -> Self {
        write(&self.folder.path().join("workspace").join(name), text.as_bytes());
        self
    }

    /// Drops `guest` in before the host starts, and lists its tool in the manifest unless it is
    /// expected to be refused.
    #[must_use]
    pub fn guest(mut self, guest: &Guest) -> Self {
        if !matches!(guest.expected(), Expected::Refused(_)) {
            self.tools.push(guest.tool().replace('_', "-"));
        }
        let (name, bytes) = guest.file();
        self.tool_file(&name, &bytes)
    }

    /// Puts a file into the drop-in directory before the host starts.
    #[must_use]
    pub fn tool_file(self, name: &str, bytes: &[u8]) -> Self {
        write(&self.folder.path().join("tools").join(name), bytes);
        self
    }

    /// Returns the path of a file of the drop-in directory.
    pub fn tool_path(&self, name: &str) -> PathBuf {
        self.folder.path().join("tools").join(name)
    }

    /// Lists these tools in the manifest instead of the built-in file and memory tools.
    #[must_use]
    pub fn only(mut self, tools: &[&str]) -> Self {
        self.tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
        self
    }

    /// Sets the rules of the policy, as a YAML list.
    #[must_use]
    pub fn rules(mut self, rules: &str) -> Self {
        rules.clone_into(&mut self.rules);
        self
    }

    /// Sets the identity's autonomy.
    #[must_use]
    pub fn autonomy(mut self, autonomy: &str) -> Self {
        autonomy.clone_into(&mut self.autonomy);
        self
    }

    /// Grants the folder for reading only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        "ro".clone_into(&mut self.permissions);
        self
    }

    /// Closes these paths, which start at the manifest, inside the granted folder.
    #[must_use]
    pub fn denied_paths(mut self, paths: &[&str]) -> Self {
        self.denied_paths = paths.join(", ");
        self
    }

    /// Adds to `resource_limits` of the profile, as numbers: `timeout_ms: 1000, memory_mb: 64`.
    ///
    /// # Panics
    /// Where one is no number.
    #[must_use]
    pub fn limits(mut self, limits: &str) -> Self {
        for limit in limits.split(", ") {
            let (key, value) = limit.split_once(": ").unwrap();
            self.limits.insert(key.to_owned(), value.parse().unwrap());
        }
        self
    }

    /// Adds to `capabilities` of the profile, as lines of YAML without indentation.
    #[must_use]
    pub fn capabilities(mut self, lines: &str) -> Self {
        lines.clone_into(&mut self.capabilities);
        self
    }

    /// Sets how strongly the profile keeps its tools apart.
    #[must_use]
    pub fn level(mut self, level: &str) -> Self {
        level.clone_into(&mut self.level);
        self
    }

    /// Sets what the provider's document says beside protocol, model and authentication, as the
    /// inside of a YAML flow mapping: `endpoint` at least.
    #[must_use]
    pub fn provider(mut self, spec: &str) -> Self {
        spec.clone_into(&mut self.provider);
        self
    }

    /// Looks secrets up in these.
    #[must_use]
    pub fn secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Sets the runtime file; the profile of this host is called `sandbox-0` there.
    #[must_use]
    pub fn runtime_file(mut self, text: &str) -> Self {
        text.clone_into(&mut self.runtime_file);
        self
    }

    /// Sets what a definition file says.
    #[must_use]
    pub fn definitions(mut self, text: &str) -> Self {
        text.clone_into(&mut self.definitions);
        self
    }

    /// Gives an agent what a pod was compiled to for it.
    #[must_use]
    pub fn context(self, agent: &str, tools: &str) -> Self {
        let folder = self.folder.path().join("context").join(agent);
        std::fs::create_dir_all(&folder).unwrap();
        write(&folder.join("tools.json"), tools.as_bytes());
        self
    }

    /// Loads another document beside the manifest.
    #[must_use]
    pub fn document(mut self, name: &str, text: &str) -> Self {
        let path = self.folder.path().join(name);
        write(&path, text.as_bytes());
        self.documents.push(path);
        self
    }

    /// Lets this many calls run at once.
    #[must_use]
    pub fn calls_running(mut self, calls: usize) -> Self {
        self.host_limits.calls_running_max = calls;
        self.host_limits.calls_running_per_agent_max = Some(calls);
        self
    }

    /// Lets this many calls wait for a place.
    #[must_use]
    pub fn calls_waiting(mut self, calls: usize) -> Self {
        self.host_limits.calls_waiting_max = calls;
        self
    }

    /// Serves the pinned version of a registry too.
    #[must_use]
    pub fn registry(mut self, releases: Releases) -> Self {
        self.releases = Some(releases);
        self
    }

    /// Gives the host more, last.
    #[must_use]
    pub fn extend(mut self, extend: fn(HostBuilder) -> HostBuilder) -> Self {
        self.extend = extend;
        self
    }

    /// Builds the host.
    ///
    /// # Panics
    /// Where the documents are wrong or the host cannot be built.
    pub async fn build(self) -> TestHost {
        self.try_build().await.unwrap()
    }

    /// Builds the host.
    ///
    /// # Errors
    /// Why it cannot be built.
    ///
    /// # Panics
    /// Where the documents are wrong.
    pub async fn try_build(self) -> Result<TestHost, BuildError> {
        let claw = self.folder.path().join("claw.yaml");
        write(&claw, self.manifest().as_bytes());
        let canaries = Canaries::plant(&self.folder.path().join("outside"));
        let folder = self.folder.path();
        let profiles = manifest::builtin_profiles(folder).unwrap();
        let paths: Vec<PathBuf> = std::iter::once(claw).chain(self.documents).collect();
        let around = Surroundings { directory: folder, profiles: &profiles };
        let manifest = manifest::load(&FileDocuments, &paths, around);
        let mut manifest = manifest.unwrap_or_else(|errors| wrong(&errors));
        let runtime_file = (Path::new("clawhost.yaml"), self.runtime_file.as_bytes());
        let settings = Settings::read(Some(runtime_file), []);
        let settings = settings.unwrap_or_else(|errors| wrong(&errors));
        settings.apply(&mut manifest).unwrap_or_else(|errors| wrong(&errors));
        let defined = settings.define(&FileDocuments, &mut manifest);
        defined.unwrap_or_else(|errors| wrong(&errors));
        let context = folder.join("context");
        if context.is_dir() {
            contexts(&context, &mut manifest).unwrap_or_else(|errors| wrong(&errors));
        }
        let defined =
            manifest.governance.read("definitions.yaml".as_ref(), self.definitions.as_bytes());
        defined.unwrap_or_else(|errors| wrong(&errors));
        let settled = manifest.governance.settle(&manifest.tools);
        settled.unwrap_or_else(|errors| wrong(&errors));
        let audit = Dir::open_ambient_dir(folder.join("audit"), ambient_authority()).unwrap();
        let cache = CodeCache::open(&crate::cache_folder(), CACHE_KEY).unwrap();
        let secrets = self.secrets;
        let builder = HostBuilder::new(manifest, audit)
            .tools_dir(Some(folder.join("tools")))
            .limits(self.host_limits)
            .registry(self.releases)
            .secrets(secrets.clone())
            .audit_places(settings.audit.clone())
            .cache(Some(cache));
        let host = (self.extend)(builder).build().await?;
        Ok(TestHost { host, folder: self.folder, canaries, secrets })
    }

    fn manifest(&self) -> String {
        let lines = |prefix: &str, texts: &mut dyn Iterator<Item = &str>| {
            texts.map(|text| format!("{prefix}{text}\n")).collect::<String>()
        };
        let limits: Vec<String> =
            self.limits.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        let tools: Vec<String> =
            self.tools.iter().map(|name| format!("- {{name: {name}}}")).collect();
        let tools = match tools.is_empty() {
            true => String::new(),
            false => format!("  tools:\n{}", lines("    ", &mut tools.iter().map(String::as_str))),
        };
        format!(
            "claw: \"0.3.0\"\nkind: Claw\nmetadata: {{name: test}}\nspec:\n  identity:\n    inline: {{personality: Tests., autonomy: {autonomy}}}\n  providers:\n    - inline: {{protocol: openai-compatible, {provider}, model: none, auth: {{type: none}}}}\n  sandbox:\n    inline:\n      level: {level}\n      capabilities:\n        filesystem: {{mode: scoped, mount_paths: [{{path: ./workspace, permissions: {permissions}}}], denied_paths: [{denied}]}}\n{capabilities}      resource_limits: {{{limits}}}\n{tools}  policies:\n    - inline:\n        name: rules\n        rules:\n{rules}",
            autonomy = self.autonomy,
            provider = self.provider,
            level = self.level,
            permissions = self.permissions,
            denied = self.denied_paths,
            capabilities = lines("        ", &mut self.capabilities.lines()),
            limits = limits.join(", "),
            rules = lines("          ", &mut self.rules.lines()),
        )
    }
}

fn wrong(errors: &[manifest::DocumentError]) -> ! {
    let lines = errors.iter().map(manifest::DocumentError::one_line);
    panic!("{}", lines.collect::<Vec<_>>().join("\n"))
}

/// Returns a call by the test's own agent.
pub fn call(tool: &str, arguments: Value) -> ToolCall {
    ToolCall::new(Principal("test".to_owned()), tool, arguments)
}

/// Returns a call by the test's own agent that asks for a shorter time.
pub fn call_within(tool: &str, arguments: Value, timeout: Duration) -> ToolCall {
    ToolCall { timeout: Some(timeout), ..call(tool, arguments) }
}

/// Returns all text of a reply.
pub fn text(reply: &ToolReply) -> String {
    let blocks = reply.content.iter().map(|block| match block {
        Content::Text(text) => text.as_str(),
        _ => "",
    });
    blocks.collect::<Vec<_>>().join("\n")
}

/// Returns secrets of these names and values.
pub fn secrets(values: &'static [(&str, &str)]) -> Secrets {
    Secrets::of_environment(|asked| {
        values.iter().find(|(name, _)| *name == asked).map(|(_, it)| it.into())
    })
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}
