//! What outlives a run: the state folder, the cache folder, the credentials
//! and the secrets.
//!
//! Deliberately absent: the audit log (it has a module of its own) and anything a guest can reach.

mod credentials;
mod database;
mod folders;
mod private;
mod secret_store;
mod signing;
mod socket;

pub use self::credentials::{
    CREDENTIALS_FILE, Credentials, CredentialsError, DEFAULT_AGENT, Role, Token,
};
pub use self::database::{DATABASE_FILE, Database, DatabaseError, Migrations};
pub(crate) use self::folders::{CACHE_OPTION, STATE_OPTION, own_folder};
pub use self::folders::{FolderEnv, FolderError, StateDir, cache_folder};
pub use self::private::{FileProblem, PrivateFileError};
pub use self::secret_store::{SECRETS_FILE, SecretStore};
pub use self::signing::{existing_signing_seed, signing_seed};
pub use self::socket::{ControlSocket, SocketError, connect_all};
