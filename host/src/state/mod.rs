//! What outlives a run: the state folder, the cache folder, and the credentials.
//!
//! Deliberately absent: the audit log (it has a module of its own) and anything a guest can reach.

mod credentials;
mod database;
mod folders;

pub use self::credentials::{
    CREDENTIALS_FILE, Credentials, CredentialsError, DEFAULT_AGENT, Role, Token,
};
pub use self::database::{DATABASE_FILE, Database, DatabaseError, Migrations};
pub use self::folders::{CacheDir, FolderEnv, FolderError, StateDir};
