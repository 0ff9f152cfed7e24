//! What outlives a run: the state folder, the cache folder, the credentials
//! and the secrets.
//!
//! Deliberately absent: the audit log (it has a module of its own) and anything a guest can reach.

mod credentials;
mod database;
mod folders;
mod private;
mod secret_store;
#[cfg(unix)]
mod socket;

pub use self::credentials::{
    CREDENTIALS_FILE, Credentials, CredentialsError, DEFAULT_AGENT, Role, Token,
};
pub use self::database::{DATABASE_FILE, Database, DatabaseError, Migrations};
pub use self::folders::{CacheDir, FolderEnv, FolderError, StateDir};
pub use self::private::PrivateFileError;
pub use self::secret_store::{SECRETS_FILE, SecretStore};
#[cfg(unix)]
pub use self::socket::{ControlSocket, SocketError, connect_all};
