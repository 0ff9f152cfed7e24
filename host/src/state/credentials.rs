//! Who may ask: one token an agent, one credential for the operator.
//!
//! They are made once, from 256 random bits, and kept in the state folder in a file only its owner
//! can read, so a pasted client configuration outlives a restart. To change an agent's, delete its entry,
//! and for the operator's the file: the next start makes new ones. Deliberately absent: any way to print them by
//! accident, and any comparison that tells by its time how much was right.

use std::collections::{BTreeMap, BTreeSet};

use clawhost_core::uri::is_declared_name;
use serde::{Deserialize, Serialize};
use subtle::{Choice, ConstantTimeEq as _};

use super::StateDir;
use super::private::{FileProblem, PrivateFileError, PrivateJson, VERSION};
use crate::random::{self, NoRandomness};

/// The agent of a host whose runtime file names none.
pub const DEFAULT_AGENT: &str = "default";

/// The file in the state folder.
pub const CREDENTIALS_FILE: &str = "credentials.json";
/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;
/// The shortest token the file may hold, in bytes: a shorter one was not made by this host.
const TOKEN_TEXT_BYTES_MIN: usize = 2 * TOKEN_BYTES;

/// A secret that says who somebody is.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// Makes a new token, `clawhost-<kind>-` and 64 hexadecimal digits: safe in a URL, and easy
    /// to find for whoever scans for leaked secrets.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate(kind: &str) -> Result<Self, CredentialsError> {
        let digits = random::hex::<TOKEN_BYTES>()?;
        Ok(Self(format!("clawhost-{kind}-{digits}")))
    }

    /// Returns the secret itself, for the one place that shows or sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn equals(&self, presented: &str) -> Choice {
        self.0.as_bytes().ct_eq(presented.as_bytes())
    }
}

clawhost_core::shows!(Token {});

/// Who a credential belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// An agent of this name: it calls tools.
    Agent(String),
    /// The operator: looks and decides, and calls no tool.
    Operator,
}

/// Why credentials cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// An agent's name cannot be one.
    #[error("{0:?} is no agent's name: letters, digits and hyphens, at most 63")]
    AgentName(String),
    /// The file cannot be read or written.
    #[error("the credentials file {0}")]
    Io(PrivateFileError),
    /// The file's secrets are none, or not as this host writes them.
    #[error("the credentials file {0}; delete it to make new ones")]
    Unusable(PrivateFileError),
    /// The system has no random numbers.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

impl From<PrivateFileError> for CredentialsError {
    fn from(error: PrivateFileError) -> Self {
        match error.problem {
            FileProblem::Io(_) => Self::Io(error),
            _ => Self::Unusable(error),
        }
    }
}

/// The credentials of one host.
#[derive(Debug)]
pub struct Credentials {
    agents: BTreeMap<String, Token>,
    operator: Token,
}

/// The file, as written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    operator: Token,
    agents: BTreeMap<String, Token>,
}

impl Credentials {
    /// Reads the credentials of `state`, and makes those that are missing: the operator's and one
    /// for each of `agents`, or for [`DEFAULT_AGENT`] where none is named. The token of an agent
    /// that is not named is kept but lets nobody in.
    ///
    /// # Errors
    /// [`CredentialsError`]; no credential is then usable.
    pub fn open(state: &StateDir, agents: &[String]) -> Result<Self, CredentialsError> {
        let named = checked_names(agents)?;
        // Two hosts that start at once on one folder agree on one set of credentials.
        let file = PrivateJson::new(state.path(), CREDENTIALS_FILE);
        let _lock = file.lock()?;
        let found: Option<Stored> = file.read()?;
        let mut changed = found.is_none();
        let mut stored = found.map_or_else(Stored::new, Ok)?;
        stored.check().map_err(|reason| file.unusable(reason))?;
        for name in &named {
            if !stored.agents.contains_key(*name) {
                stored.agents.insert((*name).to_owned(), Token::generate("agent")?);
                changed = true;
            }
        }
        if changed {
            file.write(&stored)?;
        }
        stored.agents.retain(|name, _| named.contains(&name.as_str()));
        Ok(Self { agents: stored.agents, operator: stored.operator })
    }

    /// Says whether the file of `state` no longer holds each of these credentials. Whoever has them goes on with
    /// them all the same.
    ///
    /// # Errors
    /// [`CredentialsError`]: the file cannot be read.
    pub fn are_outdated(&self, state: &StateDir) -> Result<bool, CredentialsError> {
        let found: Option<Stored> = PrivateJson::new(state.path(), CREDENTIALS_FILE).read()?;
        let holds = |found: &Stored| {
            let is = |name: &String, token: &Token| {
                found.agents.get(name).is_some_and(|other| token.equals(other.reveal()).into())
            };
            bool::from(self.operator.equals(found.operator.reveal()))
                && self.agents.iter().all(|(name, token)| is(name, token))
        };
        Ok(!found.as_ref().is_some_and(holds))
    }

    /// Returns whose credential `presented` is. Compares with every one of them, in a time that
    /// does not depend on how much of it is right.
    pub fn identify(&self, presented: &str) -> Option<Role> {
        let mut role = None;
        for (name, token) in &self.agents {
            if bool::from(token.equals(presented)) {
                role = Some(Role::Agent(name.clone()));
            }
        }
        if bool::from(self.operator.equals(presented)) {
            role = Some(Role::Operator);
        }
        role
    }

    /// Returns the agents' names, in order.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.agents.keys().map(String::as_str)
    }

    /// Returns the token of an agent.
    pub fn agent(&self, name: &str) -> Option<&Token> {
        self.agents.get(name)
    }

    /// Returns every credential, with what to call it where it stood.
    pub fn all(&self) -> impl Iterator<Item = (String, &Token)> {
        let agents = self.agents.iter().map(|(name, token)| (format!("agent {name}"), token));
        agents.chain([("the operator's credential".to_owned(), &self.operator)])
    }

    /// Returns the operator's credential.
    pub const fn operator(&self) -> &Token {
        &self.operator
    }
}

fn checked_names(agents: &[String]) -> Result<Vec<&str>, CredentialsError> {
    if agents.is_empty() {
        return Ok(vec![DEFAULT_AGENT]);
    }
    let mut names = Vec::new();
    for name in agents {
        if !is_declared_name(name) {
            return Err(CredentialsError::AgentName(name.clone()));
        }
        names.push(name.as_str());
    }
    Ok(names)
}

impl Stored {
    fn new() -> Result<Self, CredentialsError> {
        let operator = Token::generate("operator")?;
        Ok(Self { version: VERSION, operator, agents: BTreeMap::new() })
    }

    /// Says what is wrong with the tokens, without repeating any.
    fn check(&self) -> Result<(), &'static str> {
        let tokens = || self.agents.values().chain([&self.operator]).map(Token::reveal);
        if tokens().any(|token| token.len() < TOKEN_TEXT_BYTES_MIN) {
            return Err("it holds a token that is too short");
        }
        if tokens().collect::<BTreeSet<_>>().len() != tokens().count() {
            return Err("two of its tokens are equal");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::FolderEnv;
    use super::*;

    fn state() -> (tempfile::TempDir, StateDir) {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::open(Some(root.path()), &FolderEnv::default()).unwrap();
        (root, state)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn they_are_made_once_and_survive() {
        let (_root, state) = state();
        let first = Credentials::open(&state, &[]).unwrap();
        let again = Credentials::open(&state, &[]).unwrap();
        assert_eq!(first.operator().reveal(), again.operator().reveal());
        let token = first.agent(DEFAULT_AGENT).unwrap().reveal();
        assert_eq!(token, again.agent(DEFAULT_AGENT).unwrap().reveal());
        assert_eq!(token.len(), "clawhost-agent-".len() + 64);
        assert_eq!(again.identify(token), Some(Role::Agent("default".to_owned())));
        assert_eq!(again.identify(first.operator().reveal()), Some(Role::Operator));
    }

    #[test]
    fn what_is_almost_right_is_wrong() {
        let (_root, state) = state();
        let credentials = Credentials::open(&state, &[]).unwrap();
        let token = credentials.agent(DEFAULT_AGENT).unwrap().reveal();
        let longer = format!("{token}0");
        let shorter: String = token.chars().skip(1).collect();
        for wrong in ["", " ", &longer, &shorter, &token.to_uppercase()] {
            assert_eq!(credentials.identify(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_agent_that_is_no_longer_named_gets_in_no_more_but_keeps_its_token() {
        let (_root, state) = state();
        let both = Credentials::open(&state, &names(&["a", "b"])).unwrap();
        let token = both.agent("b").unwrap().reveal().to_owned();
        assert_ne!(token, both.agent("a").unwrap().reveal());
        let one = Credentials::open(&state, &names(&["a"])).unwrap();
        assert_eq!(one.identify(&token), None);
        let back = Credentials::open(&state, &names(&["b"])).unwrap();
        assert_eq!(back.identify(&token), Some(Role::Agent("b".to_owned())));
        assert!(Credentials::open(&state, &names(&["../x"])).is_err());
    }

    #[test]
    fn a_file_that_lacks_one_or_has_another_is_noticed() {
        let (root, state) = state();
        let both = Credentials::open(&state, &names(&["a", "b"])).unwrap();
        let one = Credentials::open(&state, &names(&["a"])).unwrap();
        let outdated = || [&both, &one].map(|them| them.are_outdated(&state).unwrap());
        assert_eq!(outdated(), [false, false]);
        let path = root.path().join(CREDENTIALS_FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut stored: serde_json::Value = serde_json::from_str(&text).unwrap();
        stored["agents"].as_object_mut().unwrap().remove("b");
        std::fs::write(&path, stored.to_string()).unwrap();
        assert_eq!(outdated(), [true, false]);
        // What is missing is made, and is another one.
        drop(Credentials::open(&state, &names(&["b"])).unwrap());
        assert_eq!(outdated(), [true, false]);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(outdated(), [true, true]);
        drop(Credentials::open(&state, &names(&["a", "b"])).unwrap());
        assert_eq!(outdated(), [true, true]);
    }

    #[test]
    fn nothing_prints_a_secret() {
        let (_root, state) = state();
        let credentials = Credentials::open(&state, &[]).unwrap();
        let shown = format!("{credentials:?}");
        assert!(!shown.contains("clawhost-"), "{shown}");
    }

    #[test]
    fn the_file_is_private_and_an_exposed_one_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let (root, state) = state();
        drop(Credentials::open(&state, &[]).unwrap());
        let path = root.path().join(CREDENTIALS_FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = Credentials::open(&state, &[]).unwrap_err();
        assert!(
            matches!(&error, CredentialsError::Unusable(why) if matches!(why.problem, FileProblem::Exposed)),
            "{error}"
        );
    }

    #[test]
    fn a_link_in_the_file_s_place_is_refused() {
        let (root, state) = state();
        let elsewhere = root.path().join("elsewhere");
        std::fs::write(&elsewhere, "{}").unwrap();
        std::os::unix::fs::symlink(&elsewhere, root.path().join(CREDENTIALS_FILE)).unwrap();
        assert!(Credentials::open(&state, &[]).is_err());
    }

    #[test]
    fn a_broken_file_is_refused_without_repeating_it() {
        let (root, state) = state();
        drop(Credentials::open(&state, &[]).unwrap());
        let path = root.path().join(CREDENTIALS_FILE);
        let good = std::fs::read_to_string(&path).unwrap();
        let secret = "clawhost-agent-short";
        let bad = [
            "{".to_owned(),
            good.replace("\"version\": 1", "\"version\": 2"),
            good.replace("\"agents\"", "\"agenten\""),
            format!(r#"{{"version":1,"operator":"{secret}","agents":{{}}}}"#),
        ];
        for text in bad {
            std::fs::write(&path, &text).unwrap();
            let error = Credentials::open(&state, &[]).unwrap_err().to_string();
            assert!(!error.contains(secret), "{error}");
            assert!(error.contains("delete it"), "{error}");
        }
    }
}
