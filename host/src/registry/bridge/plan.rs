//! From the runtime file's entries and the documents' `mcp_source` to the servers that are needed.

use std::path::{Path, PathBuf};

use clawhost_core::catalog::Refused;
use clawhost_core::egress::{EgressRules, parse_url};
use clawhost_core::exposed::Exposure;
use clawhost_core::grants::Grants;
use clawhost_core::manifest::{
    Manifest, McpEndpoint, McpReach, McpServer, McpSource, McpValue, ToolBinding,
};

use crate::jail;
use crate::upstream::mcp::Endpoint;

/// Finds a program by its name or absolute path.
type Find = dyn Fn(&str) -> Option<PathBuf>;

/// A server that is needed under one profile.
#[derive(Debug, Clone)]
pub(in crate::registry) struct Plan {
    /// What the runtime file calls it; its address where no entry is about it.
    pub(in crate::registry) server: String,
    /// Where it is.
    pub(in crate::registry) endpoint: McpEndpoint,
    /// The profile that its program runs under.
    pub(in crate::registry) profile: String,
    /// The policy of its entry.
    pub(in crate::registry) policy: Option<String>,
    /// Where its entry stands, for messages.
    pub(in crate::registry) at: String,
    /// What of it is served.
    pub(in crate::registry) uses: Vec<Use>,
    /// What of it is served beside its tools.
    pub(in crate::registry) expose: Exposure,
    reach: McpReach,
    /// The network of the sandbox that a document states for it, where it is one of the web.
    within: Option<EgressRules>,
}

/// What of a server is served.
#[derive(Debug, Clone)]
pub(in crate::registry) enum Use {
    /// Every tool, under the server's name.
    All,
    /// What a document asks for.
    Document(Box<ToolBinding>),
    /// What its descriptor names, of a service that is an MCP server.
    Service,
    /// What the skills of agents name, under the server's name.
    Skills,
}

impl Use {
    /// Returns the refusal of the tool that a document names, where it is for one.
    pub(super) fn refused(&self, reason: &str) -> Option<Refused> {
        let Self::Document(binding) = self else { return None };
        let reason = format!("tool `{}`: {reason}", binding.name);
        Some(Refused::new(&binding.at, &reason).of(&binding.name))
    }
}

/// An entry of the runtime file whose program is there, or whose address may be asked.
struct Located<'a> {
    entry: &'a McpServer,
    /// By which documents mean it.
    endpoint: McpEndpoint,
    reach: McpReach,
}

impl Plan {
    /// Says what it is, for messages.
    pub(in crate::registry) fn title(&self) -> String {
        format!("the MCP server `{}`", self.server)
    }

    /// Returns how it is reached.
    pub(super) const fn reach(&self) -> &McpReach {
        &self.reach
    }

    /// Returns it for who sends these `headers` and nothing else.
    pub(super) fn sending(mut self, sent: Vec<(String, McpValue)>) -> Self {
        if let McpReach::Url { headers, .. } = &mut self.reach {
            *headers = sent;
        }
        self
    }

    /// Returns what starts it, or connects to it, under `grants`.
    pub(super) fn endpoint(&self, grants: Grants) -> Endpoint {
        match &self.reach {
            McpReach::Program { command, args, env } => Endpoint::Stdio {
                argv: std::iter::once(command).chain(args).cloned().collect(),
                env: env.clone(),
                grants: Box::new(grants),
            },
            McpReach::Url { url, headers, auth } => Endpoint::Http {
                url: url.as_str().to_owned(),
                headers: headers.clone(),
                auth: auth.clone(),
                within: self.within.clone().map(Box::new),
            },
        }
    }

    /// Returns it held to the network of the sandbox that a document states: of a server of the web there is
    /// nothing else that a sandbox could hold.
    fn held(self, binding: &ToolBinding, manifest: &Manifest) -> Result<Self, String> {
        let McpReach::Url { url, .. } = &self.reach else { return Ok(self) };
        let network = manifest.profile(&self.profile).and_then(|of| of.network.as_ref());
        let allows = |rules: &&EgressRules| {
            parse_url(url.as_str()).is_ok_and(|url| rules.check_url(&url).is_ok())
        };
        match network.filter(allows) {
            Some(rules) => Ok(Self { within: Some(rules.clone()), ..self }),
            None => Err(format!(
                "tool `{}`: the sandbox `{}` does not open its MCP server's address, `{url}`: open that host and port, or name another sandbox",
                binding.name, self.profile
            )),
        }
    }
}

/// Returns the entries and documents whose servers cannot be had, as things are on this machine.
pub fn misplaced(manifest: &Manifest) -> Vec<Refused> {
    plans(manifest, &jail::find).1
}

/// Returns the plan of one server, as its entry has it.
pub(super) fn alone(entry: &McpServer) -> Result<Plan, String> {
    Ok(locate(entry, &jail::find)?.plan(&entry.sandbox, None))
}

/// Returns the servers that `manifest` needs, and what names one that cannot be had.
pub(super) fn plans(manifest: &Manifest, find: &Find) -> (Vec<Plan>, Vec<Refused>) {
    let (mut plans, mut refused) = (Vec::new(), Vec::new());
    let mut located = Vec::new();
    for entry in &manifest.mcp_servers {
        match locate(entry, find) {
            Ok(one) => located.push(one),
            Err(reason) => refused.push(Refused::new(&entry.at, &reason)),
        }
    }
    for binding in &manifest.tools {
        let Some(source) = &binding.mcp else { continue };
        match of_document(binding, source, &located, manifest) {
            Ok(plan) => add(&mut plans, plan),
            Err(reason) => {
                let is_missing = source.endpoint.program().is_some_and(|path| !path.is_file());
                let of = Refused::new(&binding.at, &reason).of(&binding.name);
                refused.push(if is_missing { of.upstream() } else { of });
            }
        }
    }
    for one in &located {
        let is_used = plans.iter().any(|plan| plan.server == one.entry.name);
        if !one.entry.internal_only {
            add(&mut plans, one.plan(&one.entry.sandbox, Some(Use::All)));
        } else if manifest.services.iter().any(|of| of.tool.service == one.entry.name) {
            add(&mut plans, one.plan(&one.entry.sandbox, Some(Use::Service)));
        } else if !manifest.skills.is_empty() {
            add(&mut plans, one.plan(&one.entry.sandbox, Some(Use::Skills)));
        } else if !is_used || !one.entry.expose.kinds.is_empty() {
            // One that nobody names is asked all the same, so that it can be said what it has.
            add(&mut plans, one.plan(&one.entry.sandbox, None));
        }
    }
    (plans, refused)
}

/// Adds a server, or a use to one that is there.
fn add(plans: &mut Vec<Plan>, mut plan: Plan) {
    let same = |one: &&mut Plan| one.server == plan.server && one.profile == plan.profile;
    match plans.iter_mut().find(same) {
        Some(there) => {
            there.uses.append(&mut plan.uses);
            there.within = there.within.take().or(plan.within);
        }
        None => plans.push(plan),
    }
}

/// Finds what an entry names, and holds it against the addresses it may have.
fn locate<'a>(entry: &'a McpServer, find: &Find) -> Result<Located<'a>, String> {
    let name = &entry.name;
    let mut reach = entry.reach.clone();
    let own = match &mut reach {
        McpReach::Url { url, .. } => url.clone(),
        McpReach::Program { command, .. } => {
            let (program, endpoint) = program(command, find)?;
            *command = program;
            endpoint
        }
    };
    if entry.pinned.as_ref().is_some_and(|allowed| !allowed.contains(&own)) {
        return Err(format!(
            "the MCP server `{name}` is at `{own}`, which is none of the addresses it may have"
        ));
    }
    Ok(Located { entry, endpoint: entry.endpoint.clone().unwrap_or(own), reach })
}

/// Returns the path of a program as it is started, and its address.
fn program(command: &str, find: &Find) -> Result<(String, McpEndpoint), String> {
    let path = match command.contains('/') {
        true => std::path::absolute(command).ok(),
        false => Some(Path::new(command).to_owned()),
    };
    let found = path.and_then(|path| find(path.to_str()?));
    let known =
        found.and_then(|path| Some((path.to_str()?.to_owned(), McpEndpoint::of_program(&path)?)));
    known.ok_or_else(|| jail::not_found(command))
}

impl Located<'_> {
    fn plan(&self, profile: &str, uses: Option<Use>) -> Plan {
        // What a server has beside tools is served once, under the profile of its entry.
        let is_own = profile == self.entry.sandbox;
        let mut expose = self.entry.expose.clone();
        expose.kinds.retain(|_| is_own);
        Plan {
            expose,
            server: self.entry.name.clone(),
            endpoint: self.endpoint.clone(),
            profile: profile.to_owned(),
            policy: self.entry.policy.clone(),
            at: self.entry.at.clone(),
            uses: uses.into_iter().collect(),
            reach: self.reach.clone(),
            within: None,
        }
    }
}

/// Returns the server that a document means: an entry's, or the bare program or address.
fn of_document(
    binding: &ToolBinding,
    source: &McpSource,
    located: &[Located<'_>],
    manifest: &Manifest,
) -> Result<Plan, String> {
    let entries: Vec<_> = located.iter().filter(|one| one.endpoint == source.endpoint).collect();
    let used = Use::Document(Box::new(binding.clone()));
    let plan = match entries.as_slice() {
        [one] if source.sandbox_is_stated => one.plan(&binding.sandbox, Some(used)),
        [one] => one.plan(&one.entry.sandbox, Some(used)),
        [] => bare(binding, source, used)?,
        [first, second, ..] => {
            return Err(format!(
                "tool `{}`: `{}` is both `{}` and `{}` of `tools.mcp_servers`: give each an `endpoint` of its own",
                binding.name, source.endpoint, first.entry.name, second.entry.name
            ));
        }
    };
    if source.sandbox_is_stated { plan.held(binding, manifest) } else { Ok(plan) }
}

/// Returns a server that no entry is about: it gets no arguments, variables, headers or tokens.
fn bare(binding: &ToolBinding, source: &McpSource, used: Use) -> Result<Plan, String> {
    let reach = match source.endpoint.program() {
        Some(path) if !path.is_file() => {
            let path = path.display();
            return Err(format!("tool `{}`: there is no program `{path}`", binding.name));
        }
        Some(path) => McpReach::Program {
            command: path.display().to_string(),
            args: Vec::new(),
            env: Vec::new(),
        },
        None => McpReach::Url { url: source.endpoint.clone(), headers: Vec::new(), auth: None },
    };
    Ok(Plan {
        server: source.endpoint.to_string(),
        endpoint: source.endpoint.clone(),
        profile: binding.sandbox.clone(),
        policy: None,
        at: binding.at.clone(),
        uses: vec![used],
        expose: Exposure::default(),
        reach,
        within: None,
    })
}

#[cfg(test)]
mod tests {
    use clawhost_core::manifest::{self, OneDocument, Settings, Surroundings};

    use super::*;

    /// What a runtime file and a document need, where every bare name is a program.
    fn planned(servers: &str, tool: &str) -> (Vec<Plan>, Vec<String>) {
        let here = Path::new("/here");
        let profiles = manifest::builtin_profiles(here).unwrap();
        let around = Surroundings { directory: here, profiles: &profiles };
        let text = format!("claw: \"0.3.0\"\nkind: Tool\nmetadata: {{ name: t }}\nspec: {tool}\n");
        let document = OneDocument(text.into_bytes());
        let mut manifest = manifest::load(&document, &["t.yaml".into()], around).unwrap();
        let text = format!("version: 1\ntools: {{ mcp_servers: {servers} }}\n");
        let settings = Settings::read(Some((Path::new("/c.yaml"), text.as_bytes())), []).unwrap();
        settings.apply(&mut manifest).unwrap();
        let find = |name: &str| match name {
            "gone" | "/gone" => None,
            path if path.starts_with('/') => Some(PathBuf::from(path)),
            name => Some(Path::new("/usr/bin").join(name)),
        };
        let (plans, refused) = plans(&manifest, &find);
        (plans, refused.into_iter().map(|one| one.reason).collect())
    }

    fn facts(plan: &Plan) -> (&str, &str, usize) {
        (&plan.server, &plan.profile, plan.uses.len())
    }

    const SH: &str = "{ mcp_source: { uri: \"stdio:///usr/bin/srv\" } }";

    #[test]
    fn a_document_means_the_entry_at_its_address_and_shares_its_server() {
        let (plans, refused) = planned("{a: {command: srv, args: [x], internal_only: false}}", SH);
        assert_eq!((facts(&plans[0]), plans.len()), (("a", "none", 2), 1), "{refused:?}");
        let (plans, _) = planned("{a: {command: srv, sandbox: process}}", SH);
        assert_eq!((facts(&plans[0]), plans.len()), (("a", "process", 1), 1));
        let other = SH.replace(" } }", " }, sandbox_ref: workspace }");
        let (plans, _) = planned("{a: {command: srv, internal_only: false}}", &other);
        assert_eq!(facts(&plans[0]), ("a", "workspace", 1));
        assert_eq!(facts(&plans[1]), ("a", "none", 1));
    }

    #[test]
    fn without_an_entry_it_is_the_bare_program() {
        let sh = SH.replace("/usr/bin/srv", "/bin/sh");
        let (plans, refused) = planned("{a: {command: srv}}", &sh);
        assert_eq!(facts(&plans[0]), ("stdio:///bin/sh", "none", 1), "{refused:?}");
        let grants = Grants::default();
        let Endpoint::Stdio { argv, env, .. } = plans[0].endpoint(grants) else {
            panic!("no program")
        };
        assert_eq!((argv, env), (vec!["/bin/sh".to_owned()], Vec::new()));
        // An entry that nobody names is asked what it has.
        assert_eq!(facts(&plans[1]), ("a", "none", 0));
    }

    #[test]
    fn a_server_of_the_web_is_held_to_the_sandbox_that_its_document_states() {
        let within = |plan: &Plan| match plan.endpoint(Grants::default()) {
            Endpoint::Http { within, .. } => within.is_some(),
            Endpoint::Stdio { .. } => panic!("no address"),
        };
        let entry = "{far: {url: \"https://far.test/mcp\", internal_only: false}}";
        for (servers, uri) in [
            ("{}", "https://far.test/mcp"),
            (entry, "https://far.test/mcp"),
            // Of this machine, which the profile with a network leaves out.
            ("{}", "http://127.0.0.1:9/mcp"),
        ] {
            let document = |more: &str| format!("{{ mcp_source: {{ uri: \"{uri}\" }}{more} }}");
            let (plans, refused) = planned(servers, &document(""));
            assert_eq!((within(&plans[0]), refused), (false, Vec::new()), "{uri}");
            let (plans, refused) = planned(servers, &document(", sandbox_ref: none"));
            assert!(plans.iter().all(|plan| plan.server == "far"), "{uri}");
            assert!(refused[0].contains("`none` does not open its MCP server's"), "{refused:?}");
            let (plans, refused) = planned(servers, &document(", sandbox_ref: network"));
            let is_open = uri.contains("far");
            assert_eq!(refused.is_empty(), is_open, "{refused:?}");
            assert_eq!(plans.first().is_some_and(within), is_open, "{uri}");
        }
    }

    #[test]
    fn what_is_not_plain_to_see_is_refused() {
        for (servers, says) in [
            ("{a: {command: srv}, b: {command: srv}}", "is both `a` and `b`"),
            (
                "{a: {command: gone}}",
                "there is no program `gone` in /usr/local/bin, /usr/bin, /bin: install it there",
            ),
            ("{a: {command: /gone}}", "there is no program `/gone`: install it"),
            ("{}", "there is no program `/usr/bin/srv`"),
        ] {
            let (_, refused) = planned(servers, SH);
            assert!(refused.iter().any(|reason| reason.contains(says)), "{servers}: {refused:?}");
        }
        let both = "{a: {command: srv, endpoint: \"stdio:///a\"}, b: {command: srv}}";
        assert_eq!(facts(&planned(both, SH).0[0]), ("b", "none", 1));
    }
}
