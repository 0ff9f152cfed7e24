//! Skills: documents for agents that say, beside much else, which tools go with them.
//!
//! An agent that has skills is held to the tools that these allow, together: it is offered no other, and calls
//! no other. A tool of a server that is for internal use is there for whoever's skill names it. Deliberately
//! absent: what a skill says in words, which is the agent's to read.

use std::collections::BTreeMap;
use std::path::Path;

use regex::Regex;

use crate::catalog::Tool;
use crate::manifest::DocumentError;
use crate::manifest::glob;
use crate::manifest::node::Node;
use crate::manifest::problem::Problems;
use crate::manifest::shape::{self, ANY, STRING, Shape, TEXT, opt, req};

/// What stands before and behind the part of a skill that programs read.
const FENCE: &str = "---";
/// The names of the one key that counts here: ours, and that of skills written for other hosts.
const KEYS: [&str; 2] = ["allowed_tools", "allowed-tools"];

const HEAD: Shape = Shape::OpenRecord(&[
    req("name", &TEXT),
    opt("description", &STRING),
    opt("allowed_tools", &ANY),
    opt("allowed-tools", &ANY),
]);

/// The tools that the skills of agents allow.
#[derive(Debug, Clone, Default)]
pub struct Skills(BTreeMap<String, Vec<Regex>>);

impl Skills {
    /// Gives `agent` a skill, the document at `file`.
    ///
    /// # Errors
    /// What is wrong with the document; one that allows no tools by name is of no use here.
    pub fn add(
        &mut self,
        agent: &str,
        file: &Path,
        bytes: &[u8],
    ) -> Result<(), Vec<DocumentError>> {
        let patterns = read(file, bytes)?;
        self.0.entry(agent.to_owned()).or_default().extend(patterns);
        Ok(())
    }

    /// Says whether nobody has any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Says whether `agent` may have a tool: its skills allow it, or it has none and the tool is not one that
    /// only skills bring to light.
    pub fn allow(&self, agent: &str, tool: &Tool) -> bool {
        let Some(patterns) = self.0.get(agent) else { return !tool.surfaced };
        let names = [tool.canonical(), tool.ckp_name.as_str().into()];
        patterns.iter().any(|pattern| names.iter().any(|name| pattern.is_match(name)))
    }

    /// Says whether anybody's skills name the tool.
    pub fn name(&self, tool: &str) -> bool {
        self.0.values().flatten().any(|pattern| pattern.is_match(tool))
    }
}

fn read(file: &Path, bytes: &[u8]) -> Result<Vec<Regex>, Vec<DocumentError>> {
    let text = String::from_utf8_lossy(bytes);
    let head = text.strip_prefix(FENCE).and_then(|rest| rest.split_once("\n---"));
    let Some((head, _)) = head else {
        let reason = "the skill does not begin with `---`, its name, and `---`";
        return Err(vec![DocumentError::whole_file(file, reason, Some("begin with front matter"))]);
    };
    let mut problems = Problems::default();
    let root = shape::parsed(&mut problems, file, head.as_bytes(), &HEAD);
    let patterns = root.map(|root| patterns(&root, &mut problems));
    problems.finish(patterns)
}

fn patterns(root: &Node, problems: &mut Problems) -> Vec<Regex> {
    let Some(entry) = KEYS.iter().find_map(|key| root.entry(key)) else {
        let help = "add `allowed_tools: [read_file, 'server__*']`, or take the skill out";
        problems.invalid(&root.at, "the skill allows no tools by name", help);
        return Vec::new();
    };
    // Written for other hosts, it is one text with commas or blanks.
    let one = entry.node.as_text().into_iter().flat_map(|text| text.split([',', ' ']));
    let many = entry.node.texts(&[]).map(|(_, text)| text);
    let all: Vec<&str> = one.chain(many).filter(|text| !text.is_empty()).collect();
    if all.len() < entry.node.items().len()
        || all.iter().any(|text| text.contains(['[', '\\', '(']))
    {
        let help = "write names of tools, in which `*` and `?` stand for others";
        problems.invalid(&entry.at, "`allowed_tools` has something that is no pattern", help);
    }
    all.into_iter().filter_map(glob::of_names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(head: &str) -> Result<Skills, String> {
        let mut skills = Skills::default();
        let text = format!("---\nname: research\ndescription: d\n{head}---\n# Words\n");
        let added = skills.add("a", Path::new("S.md"), text.as_bytes());
        added.map(|()| skills).map_err(|all| all[0].one_line())
    }

    #[test]
    fn tools_are_named_by_patterns_in_either_way() {
        for head in [
            "allowed_tools: [\"flow__memory_*\", read_file]\nlicense: x\n",
            "allowed-tools: flow__memory_*, read_file\n",
        ] {
            let skills = skill(head).unwrap();
            for (name, expected) in [
                ("read_file", true),
                ("flow__memory_get", true),
                ("flow__other", false),
                ("xread_file", false),
                ("read_files", false),
            ] {
                assert_eq!(skills.name(name), expected, "{head} {name}");
            }
        }
        assert!(!skill("allowed_tools: []\n").unwrap().name("read_file"), "an empty list is none");
    }

    #[test]
    fn a_skill_that_would_allow_everything_by_mistake_is_refused_where_it_stands() {
        for (head, says) in [
            ("", "allows no tools by name"),
            ("allowed_tool: [a]\n", "S.md:4:1: unknown key `allowed_tool`"),
            ("allowed_tools: [3]\n", "S.md:4:1"),
            ("allowed_tools: ['[a-z]*']\n", "no pattern"),
        ] {
            let error = skill(head).unwrap_err();
            assert!(error.contains(says), "{head}: {error}");
        }
        let mut skills = Skills::default();
        assert!(skills.add("a", Path::new("S.md"), b"# Words").is_err());
    }
}
