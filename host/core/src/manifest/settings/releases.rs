//! `registry`: where the versions of tools lie that this host follows.

use std::path::PathBuf;

use url::Url;

use super::reader::Reader;
use crate::manifest::node::{Entry, Node};

/// What stands in `registry.store` for the store in the state folder.
const EMBEDDED: &str = "embedded";
/// What may follow a `?`: everything else that a client of PostgreSQL knows is none of the operator's file.
const PARAMETERS: [&str; 4] = ["application_name", "host", "port", "sslmode"];

/// Where versions of the registry lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseSettings {
    /// What it is called in its store, which may hold several.
    pub name: String,
    /// The PostgreSQL that has it; the store in the state folder where this is absent.
    pub postgres: Option<PostgresUrl>,
    /// The name of the secret that is the password there.
    pub password: Option<String>,
    /// The file of certificates, one of which has to have signed that of the PostgreSQL; Mozilla's list where
    /// this is absent.
    pub ca: Option<PathBuf>,
}

/// The URL of a PostgreSQL, which may hold a password.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(String);

impl PostgresUrl {
    /// Returns the URL, to connect to it and for nothing else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

shows!(PostgresUrl {});

impl Default for ReleaseSettings {
    fn default() -> Self {
        Self { name: "default".to_owned(), postgres: None, password: None, ca: None }
    }
}

impl Reader {
    pub(super) fn take_releases(&mut self, node: &Node) -> ReleaseSettings {
        if node.text(&["store"]).is_none_or(|store| store == EMBEDDED) {
            let idle = ["ca", "password"].into_iter().filter_map(|key| node.entry(key));
            for Entry { key, at, .. } in idle {
                let help = "write `registry.store` with the URL of a PostgreSQL, or take it out";
                self.refuse(at, format!("`registry.{key}` is for a PostgreSQL"), help);
            }
        }
        let default = ReleaseSettings::default();
        ReleaseSettings {
            name: node.read(&["name"]).unwrap_or(default.name),
            postgres: node.get(&["store"]).and_then(|store| self.take_postgres(store)),
            password: node.read(&["password"]),
            ca: self.path(node.below("ca")),
        }
    }

    /// A password may stand in a variable, as others have it, and not in a file.
    fn take_postgres(&mut self, store: &Node) -> Option<PostgresUrl> {
        let (text, may_tell) = (store.as_text()?, store.at.source.is_variable);
        match wrong(text, may_tell) {
            _ if text == EMBEDDED => None,
            None => Some(PostgresUrl(text.to_owned())),
            Some(reason) => {
                let help = "write `embedded`, or `postgres://user@host[:port]/database` with `?sslmode=require` or `disable`; `registry.password` names the secret that is the password";
                // Somebody may have put a password into it.
                self.refuse(&store.at.hidden(), format!("`registry.store` {reason}"), help);
                None
            }
        }
    }
}

fn wrong(text: &str, may_tell: bool) -> Option<&'static str> {
    let url = match Url::parse(text) {
        Ok(url) if ["postgres", "postgresql"].contains(&url.scheme()) => url,
        _ => return Some("is neither `embedded` nor the URL of a PostgreSQL"),
    };
    let is_known = |(key, value): (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)| {
        PARAMETERS.contains(&&*key)
            && (key != "sslmode" || value == "require" || value == "disable")
    };
    if url.password().is_some() && !may_tell {
        Some("holds a password")
    } else if !url.query_pairs().all(is_known) {
        Some("has a parameter that is not served")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tests::read_body as read;

    #[test]
    fn a_registry_lies_in_the_state_folder_or_in_postgres() {
        assert_eq!(read("", &[]).unwrap().releases, None);
        let plain = read("registry: {}", &[]).unwrap().releases.unwrap();
        assert_eq!((&*plain.name, &plain.postgres), ("default", &None));
        let text = "registry: { name: team, store: 'postgres://host@db.example.com/tools?sslmode=require', password: DB, ca: roots.pem }";
        let far = read(text, &[]).unwrap().releases.unwrap();
        assert_eq!((&*far.name, far.password.as_deref()), ("team", Some("DB")));
        assert_eq!(far.ca.as_deref(), Some(Path::new("conf/roots.pem")));
        assert!(far.postgres.unwrap().reveal().starts_with("postgres://host@"));
        for good in ["postgresql://u@%2Frun%2Fpg/db", "postgres:///db?host=/run/pg&port=7"] {
            assert!(read(&format!("registry: {{ store: '{good}' }}"), &[]).is_ok(), "{good}");
        }
    }

    #[test]
    fn a_password_stands_in_no_file_and_in_no_message() {
        for (store, says) in [
            ("postgres://u:hunter2@h/db", "holds a password"),
            ("postgres://u@h/db?password=hunter2", "has a parameter that is not served"),
            ("postgres://u@h/db?sslmode=hunter2", "has a parameter that is not served"),
            ("mysql://u:hunter2@h/db", "neither `embedded` nor"),
            ("hunter2", "neither `embedded` nor"),
        ] {
            let error = read(&format!("registry: {{ store: '{store}' }}"), &[]).unwrap_err();
            assert!(error.contains(says) && !error.contains("hunter2"), "{error}");
        }
        let idle = read("registry: { ca: roots.pem }", &[]).unwrap_err();
        assert!(idle.contains("`registry.ca` is for a PostgreSQL"), "{idle}");
        let misspelt = read("registry: { folder: a }", &[]).unwrap_err();
        assert!(misspelt.contains("ca, name, password, store"), "{misspelt}");
        let variable = [("CLAWHOST_REGISTRY_STORE", "postgres://u:hunter2@h/db")];
        let settings = read("registry: { name: a }", &variable).unwrap();
        assert!(!format!("{settings:?}").contains("hunter2"));
        let of = settings.releases.unwrap();
        assert_eq!((&*of.name, of.postgres.is_some()), ("a", true));
    }
}
