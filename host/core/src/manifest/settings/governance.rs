//! `definitions`, `composites`, `contracts` and `immune`: what holds of calls beside the documents,
//! and where more is said about single tools.

use std::path::PathBuf;
use std::time::Duration;

use super::Settings;
use super::reader::Reader;
use super::services::unread;
use crate::catalog::ckp_name;
use crate::composite::CompositeBounds;
use crate::limits::DEFINITION_FILES_MAX;
use crate::manifest::Manifest;
use crate::manifest::definition::Governance;
use crate::manifest::documents::Documents;
use crate::manifest::glob;
use crate::manifest::node::{Node, Place};
use crate::manifest::problem::DocumentError;
use crate::manifest::sandbox::tidy;
use crate::manifest::shape::shown;
use crate::quarantine::ImmuneSettings;

/// One of `definitions`: a file, or a pattern of files below the runtime file's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DefinitionFiles {
    base: PathBuf,
    pattern: String,
    at: Place,
}

impl Reader {
    pub(super) fn take_definitions(&mut self, root: &Node) -> Vec<DefinitionFiles> {
        let file = |(node, pattern): (&Node, &str)| DefinitionFiles {
            base: self.base_of(node),
            pattern: pattern.to_owned(),
            at: node.at.clone(),
        };
        root.texts(&["definitions"]).map(file).collect()
    }
}

/// Returns what all these keys say but `definitions`.
pub(super) fn take_governance(root: &Node) -> Governance {
    let default = Governance::default();
    let composites = root.below("composites");
    let immune = root.below("immune");
    let named =
        immune.below("tool_thresholds").entries().iter().map(|of| (ckp_name(&of.key), &of.at));
    let unwatched = immune.texts(&["tool_no_auto"]).map(|(item, name)| (ckp_name(name), &item.at));
    Governance {
        postconditions: root.read(&["contracts", "postcondition_mode"]).unwrap_or_default(),
        composites: CompositeBounds {
            depth_max: composites.read(&["max_depth"]).unwrap_or(default.composites.depth_max),
            steps_max: composites.read(&["max_steps"]).unwrap_or(default.composites.steps_max),
        },
        immune: take_immune(immune, &default.immune),
        named: named.chain(unwatched).map(|(name, at)| (name, at.clone())).collect(),
        ..default
    }
}

fn take_immune(node: &Node, default: &ImmuneSettings) -> ImmuneSettings {
    let days = |days: u64| Duration::from_secs(days.saturating_mul(86_400));
    let thresholds = node.below("tool_thresholds").entries().iter();
    ImmuneSettings {
        enabled: node.flag(&["enabled"]).unwrap_or(default.enabled),
        threshold: node.read(&["quarantine_threshold"]).unwrap_or(default.threshold),
        ttl: node.duration(&["quarantine_ttl"]).unwrap_or(default.ttl),
        retention: node.number(&["retention_days"]).map_or(default.retention, days),
        tool_thresholds: thresholds
            .filter_map(|of| Some((ckp_name(&of.key), of.node.read(&[])?)))
            .collect(),
        no_auto: node.texts(&["tool_no_auto"]).map(|(_, name)| ckp_name(name)).collect(),
    }
}

impl Settings {
    /// Returns the first folder of which every `.yaml` file is a definition file.
    pub fn definitions_folder(&self) -> Option<PathBuf> {
        let folder = |one: &DefinitionFiles| {
            let folder = one.pattern.strip_suffix("/*.yaml")?;
            (!glob::is_pattern(folder)).then(|| one.base.join(folder))
        };
        self.definitions.iter().find_map(folder)
    }

    /// Reads the definition files and gives the manifest what they say.
    ///
    /// # Errors
    /// Every problem of every file, and files that are not there.
    pub fn define(
        &self,
        docs: &dyn Documents,
        manifest: &mut Manifest,
    ) -> Result<(), Vec<DocumentError>> {
        let (files, mut problems) = self.named(docs);
        if let Some((_, at)) = files.get(DEFINITION_FILES_MAX) {
            let reason = format!("more than {DEFINITION_FILES_MAX} definition files");
            let help = "put several tools into one";
            problems.push(at.missing(reason, help));
        }
        problems.extend(self.describe_services(docs, manifest));
        problems.extend(self.read_skills(docs, manifest));
        for (file, at) in files.iter().take(DEFINITION_FILES_MAX) {
            match docs.read(file) {
                Ok(bytes) => {
                    let read = manifest.governance.read(file, &bytes);
                    problems.extend(read.err().unwrap_or_default());
                }
                Err(error) => problems.push(unread("definition file", file, at, &error)),
            }
        }
        if problems.is_empty() {
            problems.extend(manifest.governance.settle(&manifest.tools).err().unwrap_or_default());
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Returns the definition files, which need not be there.
    ///
    /// # Errors
    /// Every pattern that matches none.
    pub fn definition_files(
        &self,
        docs: &dyn Documents,
    ) -> Result<Vec<PathBuf>, Vec<DocumentError>> {
        match self.named(docs) {
            (files, problems) if problems.is_empty() => {
                Ok(files.into_iter().map(|(file, _)| file).collect())
            }
            (_, problems) => Err(problems),
        }
    }

    /// Returns the definition files, each with the place that names it, and what is wrong with patterns.
    fn named(&self, docs: &dyn Documents) -> (Vec<(PathBuf, &Place)>, Vec<DocumentError>) {
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        for one in &self.definitions {
            match one.files(docs) {
                Ok(found) => files.extend(found.into_iter().map(|file| (file, &one.at))),
                Err(problem) => problems.push(*problem),
            }
        }
        (files, problems)
    }
}

impl DefinitionFiles {
    fn files(&self, docs: &dyn Documents) -> Result<Vec<PathBuf>, Box<DocumentError>> {
        let Self { base, pattern, at } = self;
        if !glob::is_pattern(pattern) {
            return Ok(vec![tidy(&base.join(pattern))]);
        }
        let refused = |reason: String, help: &str| Err(Box::new(at.missing(reason, help)));
        if glob::leaves(pattern) {
            let help = "a pattern starts in the folder of the runtime file, stays inside, and knows `*`, `?` and `**`: name other files by their paths";
            return refused(format!("the pattern `{}` may lead elsewhere", shown(pattern)), help);
        }
        match glob::expand(docs, base, pattern) {
            files if files.is_empty() => {
                let reason = format!("the pattern `{}` matches no file", shown(pattern));
                refused(reason, "mend the pattern, or take it out")
            }
            files => Ok(files),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tests::read_body as settings;
    use super::*;
    use crate::manifest::PostconditionMode;
    use crate::manifest::documents::{DirEntry, OneDocument};
    use crate::manifest::tests::{claw, load_all};

    struct Folder;

    impl Documents for Folder {
        fn read(&self, file: &Path) -> std::io::Result<Vec<u8>> {
            match file.to_str() {
                Some("conf/d/a.yaml") => Ok(b"version: 1\ntools: { a: {} }".to_vec()),
                Some("conf/d/b.yaml") => Ok(b"version: 1\ntools: { b: {} }".to_vec()),
                Some("conf/again.yaml") => {
                    Ok(b"version: 1\ntools: { a: {}, c: { x: 1 } }".to_vec())
                }
                _ => Err(std::io::ErrorKind::NotFound.into()),
            }
        }

        fn list(&self, directory: &Path) -> std::io::Result<Vec<DirEntry>> {
            let entry = |name: &str, is_directory| DirEntry { name: name.into(), is_directory };
            Ok(match directory.to_str() {
                Some("conf") => vec![entry("d", true), entry("again.yaml", false)],
                _ => vec![entry("b.yaml", false), entry("a.yaml", false), entry("x.md", false)],
            })
        }
    }

    fn defined(text: &str) -> Result<Governance, String> {
        let settings = settings(text, &[]).unwrap();
        let documents = OneDocument(claw("").into_bytes());
        let mut manifest = load_all(&documents, &["claw.yaml"]).unwrap();
        settings.apply(&mut manifest).unwrap();
        let defined = settings.define(&Folder, &mut manifest);
        defined.map_err(|list| list.iter().map(DocumentError::one_line).collect::<String>())?;
        Ok(manifest.governance)
    }

    #[test]
    fn files_and_patterns_start_at_the_runtime_file() {
        let all = defined("definitions: ['d/*.yaml', d/a.yaml]");
        assert!(all.unwrap_err().contains("`a` is defined a second time"));
        let all = defined("definitions: ['d/*.yaml']").unwrap();
        let names: Vec<&str> = all.named.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn what_is_not_there_or_leads_elsewhere_is_refused_and_every_problem_is_told() {
        for (files, expected) in [
            (
                "gone.yaml",
                "conf/clawhost.yaml:2:15: the definition file `conf/gone.yaml` cannot be read: it does not exist",
            ),
            ("'e/*.txt'", "matches no file"),
            ("'../*.yaml'", "may lead elsewhere"),
            ("d/a.yaml, again.yaml", "conf/again.yaml:2:22: unknown key `x` in `tools.c`"),
        ] {
            let error = defined(&format!("definitions: [{files}]")).unwrap_err();
            assert!(error.contains(expected), "{files}: {error}");
        }
    }

    #[test]
    fn the_immune_system_is_set_by_file_and_by_either_name_of_a_variable() {
        let text = "immune: { enabled: false, quarantine_threshold: 5, tool_thresholds: { a_b: 1 }, tool_no_auto: [c_d], quarantine_ttl: 2h, retention_days: 3 }\ncontracts: { postcondition_mode: warn }";
        let Governance { immune, postconditions, named, .. } =
            settings(text, &[]).unwrap().governance;
        assert_eq!((immune.enabled, immune.threshold), (false, 5));
        assert_eq!((immune.tool_thresholds["a-b"], immune.no_auto), (1, vec!["c-d".to_owned()]));
        assert_eq!((immune.ttl.as_secs(), immune.retention.as_secs()), (7_200, 259_200));
        assert_eq!((postconditions, named.len()), (PostconditionMode::Warn, 2));
        for prefix in ["CLAWHOST", "CRUVERO"] {
            let variable = format!("{prefix}_IMMUNE_QUARANTINE_TTL");
            let found = settings(text, &[(&variable, "3h")]).unwrap().governance.immune;
            assert_eq!((found.ttl.as_secs(), found.threshold), (10_800, 5), "{prefix}");
        }
        for variable in
            ["CLAWHOST_CONTRACTS_POSTCONDITION_MODE", "CRUVERO_TOOL_CONTRACT_POSTCONDITION_MODE"]
        {
            let found = settings("", &[(variable, "warn")]).unwrap().governance;
            assert_eq!(found.postconditions, PostconditionMode::Warn, "{variable}");
            assert!(settings("", &[(variable, "ignore")]).is_err(), "{variable}");
        }
        for prefix in ["CLAWHOST_COMPOSITES", "CRUVERO_COMPOSITE"] {
            let own =
                [(&*format!("{prefix}_MAX_DEPTH"), "2"), (&format!("{prefix}_MAX_STEPS"), "64")];
            let bounds =
                settings("composites: { max_steps: 3 }", &own).unwrap().governance.composites;
            assert_eq!((bounds.depth_max, bounds.steps_max), (2, 64), "{prefix}");
        }
        assert!(settings("composites: { max_depth: 5 }", &[]).is_err());
        assert!(settings("", &[("CRUVERO_IMMUNE_ENABELD", "false")]).is_err());
        assert!(settings("immune: { quarantine_threshold: 0 }", &[]).is_err());
    }
}
