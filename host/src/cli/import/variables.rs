//! Folders that a client's configuration names by a variable of its editor.
//!
//! Deliberately absent: every other variable, whose value only the editor knows. It is taken for a secret, or
//! stays as it is written.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::made::{Made, Unmade};

/// The folders of a workspace in which editors keep its configuration.
const EDITORS: [&str; 2] = [".cursor", ".vscode"];
const WORKSPACE: &str = "${workspaceFolder}";
const HOME: &str = "${userHome}";

/// Returns the workspace of which `file` is the configuration. That of a whole home is of any workspace.
pub(super) fn workspace(file: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let file = std::path::absolute(file).ok()?;
    let editor = file.parent()?;
    let is_editors = EDITORS.iter().any(|name| editor.ends_with(name));
    let folder = editor.parent().filter(|_| is_editors)?.canonicalize().ok()?;
    (Some(folder.as_path()) != home).then_some(folder)
}

impl Made {
    /// Returns what an entry says with the folders themselves in it.
    pub(super) fn located(&self, value: &Value) -> Result<Value, Unmade> {
        match value {
            Value::String(text) => self.located_text(text).map(Value::String),
            Value::Array(items) => {
                let items = items.iter().map(|item| self.located(item));
                items.collect::<Result<_, Unmade>>().map(Value::Array)
            }
            Value::Object(entries) => {
                let entries = entries
                    .iter()
                    .map(|(key, value)| self.located(value).map(|value| (key.clone(), value)));
                entries.collect::<Result<_, Unmade>>().map(Value::Object)
            }
            _ => Ok(value.clone()),
        }
    }

    fn located_text(&self, text: &str) -> Result<String, Unmade> {
        let mut text = text.to_owned();
        for (variable, folder, help) in [
            (
                WORKSPACE,
                &self.workspace,
                "write the folder there, or import the file in the workspace's `.vscode` or `.cursor`",
            ),
            (HOME, &self.home, "set HOME, or write the folder there"),
        ] {
            if text.contains(variable) {
                let unknown = || (format!("nobody knows which folder `{variable}` is"), help);
                let folder = folder.as_ref().and_then(|folder| folder.to_str());
                text = text.replace(variable, folder.ok_or_else(unknown)?);
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_editor_calls_a_folder_is_that_folder() {
        let known = |home: Option<&str>, workspace: Option<&str>| {
            let [home, workspace] = [home, workspace].map(|of| of.map(PathBuf::from));
            Made { home, workspace, ..Made::default() }
        };
        let entry = json!({
            "command": "${workspaceFolder}/srv", "args": ["--at=${userHome}/${workspaceFolder}", 1],
            "env": {"T": "${input:t}"},
        });
        let both = known(Some("/h"), Some("/w"));
        let expected =
            json!({"command": "/w/srv", "args": ["--at=/h//w", 1], "env": {"T": "${input:t}"}});
        assert_eq!(both.located(&entry).ok(), Some(expected));
        for (known, variable) in
            [(known(Some("/h"), None), WORKSPACE), (known(None, Some("/w")), HOME)]
        {
            let (reason, _) = known.located(&entry).unwrap_err();
            assert_eq!(reason, format!("nobody knows which folder `{variable}` is"));
        }
    }

    #[test]
    fn a_workspace_is_the_folder_above_that_of_an_editor() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join(".vscode")).unwrap();
        let file = folder.join(".vscode/mcp.json");
        assert_eq!(workspace(&file, None), Some(folder.clone()));
        assert_eq!(workspace(&file, Some(&folder)), None, "what is in a home is for any workspace");
        assert_eq!(workspace(&folder.join("mcp.json"), None), None);
    }
}
