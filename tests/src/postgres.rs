//! A PostgreSQL of a test's own: its data and its socket lie in a temporary folder, and it has no port.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::wait;

/// Who it runs as where the tests are root, as whom it refuses to run.
const NOBODY: u32 = 65_534;
/// A server. It ends with its test.
#[derive(Debug)]
pub struct Postgres {
    child: Child,
    folder: TempDir,
}

impl Postgres {
    /// Starts an empty one.
    ///
    /// # Panics
    /// Where it does not come up.
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        if folder.path().metadata().unwrap().uid() == 0 {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let data = folder.path().join("data");
        let mut made = command("initdb", folder.path());
        made.args(["-U", "test", "-A", "trust", "--no-sync", "-E", "UTF8"]).arg("-D").arg(&data);
        let made = made.stderr(Stdio::piped()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut server = command("postgres", folder.path());
        server.arg("-D").arg(&data).arg("-k").arg(folder.path());
        server.args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=20"]);
        let child = server.spawn().unwrap();
        let own = Self { child, folder };
        wait::until_found("PostgreSQL to start", async || own.sql("SELECT 1").await.ok()).await;
        own
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        let folder = self.folder.path().to_str().unwrap().replace('/', "%2F");
        format!("postgres://test@{folder}/postgres")
    }

    /// Carries out `text` as its superuser.
    ///
    /// # Errors
    /// What it says.
    pub async fn sql(&self, text: &str) -> Result<(), String> {
        let connected = tokio_postgres::connect(&self.url(), NoTls).await;
        let (client, connection) = connected.map_err(|error| error.to_string())?;
        let connection = tokio::spawn(connection);
        let done = client.batch_execute(text).await.map_err(|error| format!("{error:?}"));
        drop(client);
        drop(connection.await);
        done
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // It takes its shared memory and its own children along.
        let quit = Command::new("kill").args(["-QUIT", &self.child.id().to_string()]).status();
        drop((quit, self.child.wait()));
    }
}

/// Returns a program of PostgreSQL that runs as whom `folder` belongs to.
fn command(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    let owner = folder.metadata().unwrap();
    if owner.uid() == NOBODY {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.current_dir(folder).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
