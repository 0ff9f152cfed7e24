//! The services of a pod: what describes each, and where it is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::stdio::STDIO;
use super::{CLAW, PodSurroundings, skills};
use crate::descriptor::{Descriptor, FILE_NAME};
use crate::egress;
use crate::limits::POD_SERVICE_NAME_BYTES_MAX;
use crate::manifest::DocumentError;
use crate::manifest::node::{Entry, Node, Place, Value};
use crate::manifest::problem::{Problems, choices};
use crate::manifest::shape::{shown, wrong_url};

/// Problems that are told of one descriptor: a file that is something else has one a line.
const PROBLEMS_MAX: usize = 8;
/// The folder of what was seen of servers that describe themselves.
pub const DISCOVERED: &str = ".claw-discovered";
/// The port of a service that states none.
const PORT: &str = "80";
/// As [`PORT`], of one that is a program: where `clawhost wrap` serves it.
const STDIO_PORT: &str = "8080";

/// The services of one pod.
pub(super) struct Services<'a> {
    base: PathBuf,
    all: BTreeMap<&'a str, &'a Node>,
    around: &'a PodSurroundings<'a>,
    /// What was read already; nothing where nothing describes a service, or what does is wrong.
    described: BTreeMap<String, Option<Descriptor>>,
    /// What describes these is wrong.
    faulty: BTreeSet<String>,
    /// What those say to agents of when to use them and why.
    skills: BTreeMap<String, String>,
    notes: Vec<String>,
    file: &'a Path,
}

impl<'a> Services<'a> {
    pub(super) fn new(file: &'a Path, root: &'a Node, around: &'a PodSurroundings<'a>) -> Self {
        let services = root.get(&["services"]).map(Node::entries).unwrap_or_default().iter();
        let all = services.map(|Entry { key, node, .. }| (key.as_str(), node)).collect();
        let base = file.parent().unwrap_or_else(|| Path::new("")).to_owned();
        let (described, skills) = (BTreeMap::new(), BTreeMap::new());
        let (faulty, notes) = (BTreeSet::new(), Vec::new());
        Self { base, all, around, described, faulty, skills, notes, file }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.all.contains_key(name)
    }

    /// Says whether a service is nothing but its tools.
    pub(super) fn is_program(&self, name: &str) -> bool {
        self.all.get(name).copied().is_some_and(is_program)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.all.keys().copied()
    }

    /// Reports names that could be no folder's or host's, and addresses that are none, or of no service.
    pub(super) fn check(&self, problems: &mut Problems) {
        for (name, node) in self.all.iter().filter(|(name, _)| !is_service_name(name)) {
            let reason = format!("`{}` is no name of a service", shown(name));
            problems.invalid(
                &node.at,
                reason,
                "letters, digits, `.`, `_` and `-`; the first a letter or digit",
            );
        }
        for (name, address) in self.around.addresses {
            let problem = if !self.has(name) {
                Some((
                    format!("the pod has no service `{}`", shown(name)),
                    choices(name, self.names()),
                ))
            } else {
                let wrong = wrong_url(address);
                wrong.map(|(is, help)| (format!("the address of `{}` {is}", shown(name)), help))
            };
            if let Some((reason, help)) = problem {
                problems.push(DocumentError::whole_file(self.file, reason, Some(&help)));
            }
        }
    }

    /// Returns what describes a service. What is wrong with it is told once.
    pub(super) fn described(&mut self, name: &str, problems: &mut Problems) -> Option<&Descriptor> {
        if !self.described.contains_key(name) {
            let before = problems.count();
            let read = self.read(name, problems);
            self.take_skill(name, read.as_ref(), problems);
            if !problems.none_since(before) {
                self.faulty.insert(name.to_owned());
            }
            self.described.insert(name.to_owned(), read);
        }
        self.described.get(name)?.as_ref()
    }

    /// Reads the skill of a service, where it has one that lies here.
    fn take_skill(&mut self, name: &str, of: Option<&Descriptor>, problems: &mut Problems) {
        let Some(skill) = of.and_then(|of| of.skill.as_ref()) else { return };
        if Path::new(&skill.path).is_absolute() {
            let (at, path) = (&skill.at, shown(&skill.path));
            self.notes.push(format!(
                "{at}: no agent gets the skill of `{name}`: `{path}` is in its image, which nothing looks into; put it beside the descriptor, and name it by its path from there"
            ));
        } else if let Some(text) = skills::read(skill, self.around.docs, problems) {
            self.skills.insert(name.to_owned(), text);
        }
    }

    /// Returns the skill of a service that was [described](Self::described).
    pub(super) fn skill(&self, name: &str) -> Option<&str> {
        self.skills.get(name).map(String::as_str)
    }

    /// Returns what services have that no agent gets, for people.
    pub(super) fn into_notes(self) -> Vec<String> {
        self.notes
    }

    /// Says whether it was told what is wrong with what describes a service.
    pub(super) fn is_faulty(&self, name: &str) -> bool {
        self.faulty.contains(name)
    }

    /// Says which tools of a service can be allowed.
    pub(super) fn allowable(&mut self, name: &str, problems: &mut Problems) -> String {
        let described = self.described(name, problems);
        let names: Vec<&str> = described.iter().flat_map(|one| one.names()).collect();
        match names.is_empty() {
            true => "write `allow: all`, or a list of its tools".to_owned(),
            false => format!("write `allow: all`, or a list of: {}", names.join(", ")),
        }
    }

    /// The file that the pod names, else what was discovered, else what lies where the service is built.
    fn read(&self, name: &str, problems: &mut Problems) -> Option<Descriptor> {
        let node = self.all.get(name)?;
        let stated = node.get(&[CLAW, "describe-file"]);
        let stated = stated.and_then(|node| Some((node.as_text()?, &node.at)));
        let discovered = self.base.join(DISCOVERED).join(format!("{name}.{FILE_NAME}"));
        let build = node.get(&["build"]);
        let built = build.and_then(|build| build.as_text().or_else(|| build.text(&["context"])));
        let built = built.map(|folder| self.base.join(folder).join(format!(".{FILE_NAME}")));
        let files = match stated {
            Some((file, _)) => vec![self.base.join(file)],
            None => std::iter::once(discovered).chain(built).collect(),
        };
        for file in files {
            match self.around.docs.read(&file) {
                Ok(bytes) => {
                    let read = Descriptor::read(&file, &bytes);
                    let first = |all: Vec<DocumentError>| all.into_iter().take(PROBLEMS_MAX);
                    return read.map_err(|all| first(all).for_each(|one| problems.push(one))).ok();
                }
                Err(error) if stated.is_none() && error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    let name = shown(&file.to_string_lossy());
                    let reason = format!("`{name}` cannot be read: {error}");
                    let help = "name a file that is there; relative paths start at the pod";
                    match stated {
                        Some((_, at)) => problems.missing(at, reason, help),
                        None => problems.push(DocumentError::whole_file(&file, reason, Some(help))),
                    }
                    return None;
                }
            }
        }
        None
    }

    /// Says where a descriptor is looked for.
    pub(super) fn where_described(&self, name: &str) -> String {
        format!(
            "name a file by `{CLAW}.describe-file` of `{name}`; `{DISCOVERED}/{name}.{FILE_NAME}` and `.{FILE_NAME}` of its `build` folder are looked for too"
        )
    }

    /// Returns where a service is, without the path of a tool.
    pub(super) fn base_url(&self, name: &str) -> String {
        if let Some(address) = self.around.addresses.get(name) {
            return address.clone();
        }
        format!("http://{name}:{}", self.port(name).unwrap_or_default())
    }

    /// Returns the first port that a service states, or the one that it has without; where it states
    /// something else, that.
    fn port(&self, name: &str) -> Result<String, &Node> {
        let node = self.all.get(name).copied();
        let stated = |key: &&str| node?.list(&[key]).first();
        match ["expose", "ports"].iter().find_map(stated) {
            Some(entry) => port(entry).ok_or(entry),
            None if node.is_some_and(is_program) => Ok(STDIO_PORT.to_owned()),
            None => Ok(PORT.to_owned()),
        }
    }

    /// Says why a service cannot be asked under the address that the pod gives it, and where, if that is
    /// its port.
    pub(super) fn unreachable(&self, name: &str) -> Option<(Option<&Place>, String)> {
        let is_given = self.around.addresses.contains_key(name);
        if let Some(entry) = self.port(name).err().filter(|_| !is_given) {
            return Some((Some(&entry.at), format!("the port of `{name}` is none")));
        }
        let url = self.base_url(name);
        egress::endpoint(&url).err().map(|_| (None, format!("`{}` is no address", shown(&url))))
    }
}

/// Says whether a service, a folder and a file can have this name.
pub fn is_service_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= POD_SERVICE_NAME_BYTES_MAX
        && name.chars().all(fits)
}

/// Returns the port inside of an entry such as `4000`, `"8080:4000"`, `4000-4005/tcp`, `{target: 4000}`.
fn port(node: &Node) -> Option<String> {
    let node = node.get(&["target"]).unwrap_or(node);
    let text = match &node.value {
        Value::Number(number) => number.to_string(),
        _ => node.as_text()?.to_owned(),
    };
    let inside = text.rsplit(':').next()?;
    let end = inside.find(|c: char| !c.is_ascii_digit()).unwrap_or(inside.len());
    let (digits, rest) = inside.split_at(end);
    let is_one = !digits.is_empty() && (rest.is_empty() || rest.starts_with(['-', '/']));
    is_one.then(|| digits.to_owned())
}

/// Says whether a service is a program on standard input and output, and no container of its own.
pub(super) fn is_program(service: &Node) -> bool {
    service.get(&[CLAW, STDIO]).is_some()
}

/// Returns the variables that a service states: where, which, and the value where there is one.
pub(super) fn variables(service: &Node) -> Vec<(&Place, &str, Option<String>)> {
    let Some(environment) = service.get(&["environment"]) else { return Vec::new() };
    let keyed = environment.entries().iter();
    let keyed = keyed.map(|Entry { key, at, node }| (at, key.as_str(), written(node)));
    let listed = environment.texts(&[]).map(|(item, text)| {
        let (name, value) = text.split_once('=').map_or((text, None), |(k, v)| (k, Some(v)));
        (&item.at, name, value.map(str::to_owned))
    });
    keyed.chain(listed).collect()
}

/// Returns a value as Compose hands it on.
fn written(value: &Node) -> Option<String> {
    match &value.value {
        Value::Null => None,
        Value::Text(text) => Some(text.clone()),
        _ => Some(value.to_json().to_string()),
    }
}

/// Returns the secret that stands for a variable: what has no value is the one of its own name.
pub(super) fn secret_of<'t>(name: &'t str, value: Option<&'t str>) -> Option<&'t str> {
    value.map_or(Some(name), reference)
}

/// Returns the name in `$NAME` or `${NAME}`, if that is all there is.
fn reference(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    let name = name.strip_prefix('{').map_or(Some(name), |rest| rest.strip_suffix('}'))?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}
