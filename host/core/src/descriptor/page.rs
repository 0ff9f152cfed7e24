//! `CLAWDAPUS.md`: what an agent reads of its services, tools and skills. It has names as the model sees
//! them, and of a service that has tools no address.

use std::collections::BTreeMap;

use super::{Credential, Descriptor, ManagedTool};
use crate::names::{NameCollision, Names};
use crate::visible;

/// What a service's skill is called, in a folder of the service's name in this one.
pub const SKILL_FILE: &str = "SKILL.md";
/// The folder of an agent's skills.
pub const SKILLS_FOLDER: &str = "skills";

/// Returns the page of an agent, which has the `skills` of these services.
pub(super) fn page(
    agent: &str,
    pod: Option<&str>,
    reached: &[(&str, Option<Descriptor>)],
    tools: &[(ManagedTool, Credential)],
    skills: &BTreeMap<String, String>,
) -> Result<String, NameCollision> {
    let canonical: Vec<String> = tools.iter().map(|(tool, _)| tool.canonical()).collect();
    let names = Names::new(canonical.iter().map(String::as_str), [])?;
    let pod = pod.map(|pod| format!(" in the pod `{}`", visible::line(pod))).unwrap_or_default();
    let mut text = format!("# CLAWDAPUS.md\n\nYou are `{}`{pod}.\n", visible::line(agent));
    text.push_str("\n## Services\n\n");
    for (name, described) in reached {
        text.push_str(&service(name, described.as_ref()));
    }
    if reached.is_empty() {
        text.push_str("None.\n");
    }
    text.push_str("\n## Tools\n\n");
    for ((tool, _), canonical) in tools.iter().zip(&canonical) {
        let name = names.presented(canonical).unwrap_or_default();
        text.push_str(&format!("- `{name}`: {}\n", visible::line(&tool.description)));
    }
    if tools.is_empty() {
        text.push_str("None.\n");
    }
    if !skills.is_empty() {
        text.push_str("\n## Skills\n\nBefore you use a service, read what it says of that:\n\n");
    }
    for service in skills.keys().map(|name| visible::line(name)) {
        text.push_str(&format!("- `{service}`: `{SKILLS_FOLDER}/{service}/{SKILL_FILE}`\n"));
    }
    Ok(text)
}

fn service(name: &str, described: Option<&Descriptor>) -> String {
    let said = described.map(|of| visible::line(&of.description)).filter(|said| !said.is_empty());
    let said = said.map(|said| format!(": {said}")).unwrap_or_default();
    let mut text = format!("- `{}`{said}\n", visible::line(name));
    // Who has tools is asked by them or not at all.
    for endpoint in described.filter(|of| of.tools.is_empty()).iter().flat_map(|of| &of.endpoints) {
        text.push_str(&format!("  - `{}`\n", visible::line(endpoint)));
    }
    text
}
