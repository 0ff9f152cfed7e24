//! The control socket: how the command line reaches a running host.
//!
//! Each host listens at a name of its own, `STATE/control-<random>.sock`, so that several can share
//! a state folder; the command line asks all of them. Only the owner of the folder gets in: the
//! file is private, and the system says who connects. Deliberately absent: what is said over it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

const PREFIX: &str = "control-";
const SUFFIX: &str = ".sock";
/// The name while the socket does not listen yet, or is not private yet.
const UNFINISHED: &str = ".new";

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The system says no.
    #[error("the control socket in {path} cannot be used: {source}", path = path.display())]
    Io {
        /// The state folder.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// Addresses of sockets are short: 107 bytes on Linux, 103 elsewhere.
    #[error(
        "the path {path} is too long for a socket; choose a shorter folder with --state DIR",
        path = path.display()
    )]
    TooLong {
        /// The socket's path.
        path: PathBuf,
    },
}

/// A socket that listens. Dropping it takes its name away.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Listens in the state folder `folder`, and removes the names of hosts that are gone.
    ///
    /// # Errors
    /// [`SocketError`].
    pub async fn listen(folder: &Path) -> Result<Self, SocketError> {
        let io = |source| SocketError::Io { path: folder.to_owned(), source };
        remove_stale(folder).await.map_err(io)?;
        let random = crate::random::hex::<4>().map_err(|error| io(io::Error::other(error)))?;
        let name = format!("{PREFIX}{random}");
        let path = folder.join(format!("{name}{SUFFIX}"));
        let unfinished = folder.join(format!("{name}{UNFINISHED}"));
        check_length(&path)?;
        let listener = UnixListener::bind(&unfinished).map_err(io)?;
        // It gets its name when it listens and is private, so nobody sees it otherwise.
        let finished = make_private(&unfinished).and_then(|()| fs::rename(&unfinished, &path));
        finished.inspect_err(|_| drop(fs::remove_file(&unfinished))).map_err(io)?;
        Ok(Self { listener, path })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the next connection of this host's own user; others are turned away.
    ///
    /// # Errors
    /// What the system says, mostly that there are no more file handles.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw() {
                return Ok(stream);
            }
            tracing::warn!("another user tried the control socket");
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Without it, the next host finds that nobody answers, and removes the name.
        drop(fs::remove_file(&self.path));
    }
}

/// Connects to every host that runs on the state folder `folder`, and names the socket of each. A
/// host that is gone is none; one that takes no connection does not keep anybody from the others.
///
/// # Errors
/// What the system says about the folder.
pub async fn connect_all(folder: &Path) -> io::Result<Vec<(PathBuf, io::Result<UnixStream>)>> {
    let mut hosts = Vec::new();
    for path in names(folder)? {
        if let Some(stream) = connect(&path).await.transpose() {
            hosts.push((path, stream));
        }
    }
    Ok(hosts)
}

/// Returns a connection, or nothing where nobody answers.
async fn connect(path: &Path) -> io::Result<Option<UnixStream>> {
    match UnixStream::connect(path).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

async fn remove_stale(folder: &Path) -> io::Result<()> {
    for path in names(folder)? {
        if matches!(connect(&path).await, Ok(None)) {
            // Another host may have removed it first.
            drop(fs::remove_file(&path));
        }
    }
    Ok(())
}

/// Returns the sockets in `folder`, sorted; none where there is no folder.
fn names(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX)) {
            paths.push(folder.join(name));
        }
    }
    paths.sort();
    Ok(paths)
}

fn check_length(path: &Path) -> Result<(), SocketError> {
    // The standard library knows what this system takes.
    std::os::unix::net::SocketAddr::from_pathname(path)
        .map(drop)
        .map_err(|_| SocketError::TooLong { path: path.to_owned() })
}

fn make_private(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn several_hosts_share_a_folder_and_leave_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let one = ControlSocket::listen(folder.path()).await.unwrap();
        let two = ControlSocket::listen(folder.path()).await.unwrap();
        let mode = fs::metadata(one.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(connect_all(folder.path()).await.unwrap().len(), 2);
        one.accept().await.unwrap();
        drop((one, two));
        assert!(connect_all(folder.path()).await.unwrap().is_empty());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn the_socket_of_a_dead_host_is_removed_and_that_of_a_living_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let dead = folder.path().join("control-dead.sock");
        drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
        let living = ControlSocket::listen(folder.path()).await.unwrap();
        assert!(!dead.exists());
        let _second = ControlSocket::listen(folder.path()).await.unwrap();
        assert!(living.path().exists());
    }

    #[tokio::test]
    async fn a_folder_with_a_long_name_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("x".repeat(120));
        fs::create_dir(&long).unwrap();
        let error = ControlSocket::listen(&long).await.unwrap_err();
        assert!(matches!(error, SocketError::TooLong { .. }), "{error}");
        assert!(error.to_string().contains("--state DIR"), "{error}");
    }

    #[tokio::test]
    async fn a_host_that_takes_no_connection_keeps_nobody_from_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let living = ControlSocket::listen(folder.path()).await.unwrap();
        // Not even a stream is spoken there.
        let odd = folder.path().join("control-odd.sock");
        let _odd = std::os::unix::net::UnixDatagram::bind(&odd).unwrap();
        let found = connect_all(folder.path()).await.unwrap();
        let works: Vec<_> = found.iter().map(|(path, stream)| (path, stream.is_ok())).collect();
        assert_eq!(works.len(), 2);
        assert!(works.contains(&(&odd, false)));
        assert!(works.contains(&(&living.path().to_owned(), true)));
    }

    #[tokio::test]
    async fn where_there_is_no_folder_there_is_no_host() {
        assert!(connect_all(Path::new("/nowhere/at/all")).await.unwrap().is_empty());
    }
}
