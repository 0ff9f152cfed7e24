//! `tools.services` and `agents[].skills`: services whose tools this host offers to whoever policy lets, each
//! described by a file of its own, and documents that hold an agent to some tools.

use std::path::{Path, PathBuf};

use super::Settings;
use super::reader::Reader;
use crate::catalog::Refused;
use crate::descriptor::{Callers, Credential, Descriptor, Granted};
use crate::manifest::Manifest;
use crate::manifest::documents::Documents;
use crate::manifest::node::{Entry, Node, Place};
use crate::manifest::problem::{DocumentError, why};
use crate::manifest::shape::shown;

/// One of `tools.services`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServiceSettings {
    name: String,
    url: String,
    describe: PathBuf,
    /// The name of its token.
    secret: Option<String>,
    /// Those of its tools that are served; all where absent.
    allow: Option<Vec<(String, Place)>>,
    at: Place,
}

impl Reader {
    pub(super) fn take_services(&mut self, services: &Node) -> Vec<ServiceSettings> {
        let services = services.entries().iter();
        services.filter_map(|entry| self.take_service(entry)).collect()
    }

    fn take_service(&mut self, Entry { key, at, node }: &Entry) -> Option<ServiceSettings> {
        if key.is_empty() || key.contains('.') {
            let reason = format!("the service name `{}` is empty or has a dot", shown(key));
            self.refuse(at, reason, "tools are called `service.tool`");
        }
        let named = |(item, name): (&Node, &str)| (name.to_owned(), item.at.clone());
        Some(ServiceSettings {
            name: key.clone(),
            url: node.read(&["url"])?,
            describe: self.path(node.below("describe"))?,
            secret: node.read(&["secret"]),
            allow: node.get(&["allow"]).map(|_| node.texts(&["allow"]).map(named).collect()),
            at: at.clone(),
        })
    }
}

impl Settings {
    /// Returns the file that describes a service.
    pub fn descriptor_of(&self, name: &str) -> Option<&Path> {
        let service = self.tools.services.iter().find(|service| service.name == name);
        service.map(|service| service.describe.as_path())
    }

    /// Reads the skills of agents, and gives the manifest what they allow.
    pub(super) fn read_skills(
        &self,
        docs: &dyn Documents,
        manifest: &mut Manifest,
    ) -> Vec<DocumentError> {
        let mut problems = Vec::new();
        for agent in &self.agents {
            for (file, at) in &agent.skills {
                match docs.read(file) {
                    Ok(bytes) => {
                        let added = manifest.skills.add(&agent.name, file, &bytes);
                        problems.extend(added.err().unwrap_or_default());
                    }
                    Err(error) => problems.push(unread("skill", file, at, &error)),
                }
            }
        }
        problems
    }

    /// Reads the descriptors of services, and gives the manifest their tools. One that is wrong takes none of
    /// the others along.
    pub(super) fn describe_services(
        &self,
        docs: &dyn Documents,
        manifest: &mut Manifest,
    ) -> Vec<DocumentError> {
        for service in &self.tools.services {
            match service.read(docs) {
                Ok(granted) => manifest.services.extend(granted),
                Err(wrong) => {
                    let source = format!("the service `{}`", service.name);
                    manifest.broken_services.push(Refused::wrong(&source, wrong).of(&service.name));
                }
            }
        }
        manifest.reach_services().err().map(|problem| *problem).into_iter().collect()
    }
}

impl Manifest {
    /// Adds the MCP servers among the services to those that are bridged.
    ///
    /// # Errors
    /// One that cannot be reached in one way, or is called like a server of the runtime file.
    pub fn reach_services(&mut self) -> Result<(), Box<DocumentError>> {
        let wrong = |reason: String| {
            Box::new(DocumentError::whole_file(Path::new("services"), reason, None))
        };
        for server in crate::descriptor::servers(&self.services).map_err(wrong)? {
            match self.mcp_servers.iter().find(|one| one.name == server.name) {
                None => self.mcp_servers.push(server),
                Some(same) if *same == server => {}
                Some(other) => {
                    let reason = format!(
                        "`{}` is a service and an MCP server, at {}",
                        server.name, other.at
                    );
                    return Err(wrong(reason));
                }
            }
        }
        Ok(())
    }
}

/// Says that a file which a key names cannot be read.
pub(super) fn unread(what: &str, file: &Path, at: &Place, error: &std::io::Error) -> DocumentError {
    let file = shown(&file.display().to_string());
    let reason = format!("the {what} `{file}` cannot be read: {}", why(error));
    at.missing(reason, "name a file that is there; relative paths start at this one")
}

impl ServiceSettings {
    fn read(&self, docs: &dyn Documents) -> Result<Vec<Granted>, Vec<DocumentError>> {
        let bytes = docs.read(&self.describe);
        let unread = |error| vec![unread("descriptor", &self.describe, &self.at, &error)];
        let bytes = bytes.map_err(unread)?;
        let described = Descriptor::read(&self.describe, &bytes)?;
        let strays =
            self.allow.iter().flatten().filter(|(name, _)| described.names().all(|n| n != name));
        let strays: Vec<_> = strays
            .map(|(name, at)| {
                let (reason, help) = described.lacks(&self.name, name);
                at.missing(reason, help)
            })
            .collect();
        if !strays.is_empty() {
            return Err(strays);
        }
        let callers = Callers::Anybody(self.credential(&described.auth).map_err(|one| vec![*one])?);
        let is_served = |name: &str| {
            self.allow.as_ref().is_none_or(|names| names.iter().any(|(one, _)| one == name))
        };
        let tools = described.tools.iter().filter(|tool| is_served(&tool.name));
        let granted =
            |tool: crate::descriptor::ManagedTool| Granted { tool, callers: callers.clone() };
        Ok(tools.map(|tool| granted(tool.of(&self.name, &self.url))).collect())
    }

    fn credential(&self, wanted: &Credential) -> Result<Credential, Box<DocumentError>> {
        // Which secret a service gets is never for its descriptor to say.
        let credential = wanted.with_secret(self.secret.clone().unwrap_or_default());
        if credential.secret() == Some("") {
            let wanted = wanted.secret().map(shown).unwrap_or_default();
            let reason =
                format!("`{}` wants a token, `{wanted}`, and nothing says which", self.name);
            let help = format!("add `secret: {wanted}`, or the name of another secret");
            return Err(Box::new(self.at.missing(reason, help)));
        }
        Ok(credential)
    }
}
