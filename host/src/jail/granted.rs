//! The jail that grants describe.

use clawhost_core::egress::HostRules;
use clawhost_core::grants::{Access, CallLimits, Grants, Mount};
use clawhost_core::limits::{PROCESS_FILE_BYTES_MAX, PROCESS_OUTPUT_BYTES_MAX};

use super::spec::Opened;
use super::{JailError, JailLimits, JailMount, JailSpec};

impl JailLimits {
    /// Returns what a native program may use under `limits`.
    pub fn granted(limits: &CallLimits) -> Self {
        Self {
            memory_bytes: limits.process_memory_bytes,
            processes_max: limits.processes,
            open_files_max: limits.open_files,
            file_bytes_max: PROCESS_FILE_BYTES_MAX,
            output_bytes_max: PROCESS_OUTPUT_BYTES_MAX.min(limits.output_bytes),
        }
    }
}

impl JailSpec {
    /// Opens the jail of `grants`, without the network, and makes the directories that are to be
    /// made when they are first needed.
    ///
    /// # Errors
    /// As [`JailSpec::new`]; [`JailError::Failed`] where a directory cannot be made.
    pub fn granted(grants: &Grants) -> Result<Self, JailError> {
        for mount in grants.mounts.iter().filter(|mount| mount.create) {
            std::fs::create_dir_all(&mount.host)
                .map_err(|error| JailError::Failed(error.to_string()))?;
        }
        let writable = |mount: &Mount| mount.access == Access::ReadWrite;
        let mounts = grants
            .mounts
            .iter()
            .map(|mount| JailMount { path: mount.host.clone(), writable: writable(mount) })
            .collect();
        let limits = JailLimits::granted(&grants.limits);
        Self::new(mounts, env(grants), limits)
    }

    /// Returns the same jail with less in it, by the handles it has: what is left of each mount,
    /// under the environment and the bounds of `grants`.
    ///
    /// # Errors
    /// As [`JailSpec::new`].
    pub fn narrowed(&self, left: &[Option<Access>], grants: &Grants) -> Result<Self, JailError> {
        let kept = self.mounts.iter().zip(left).filter_map(|(mount, left)| {
            Some(Opened { writable: (*left)? == Access::ReadWrite, ..mount.clone() })
        });
        Self::of(kept.collect(), env(grants), JailLimits::granted(&grants.limits))
    }

    /// Lets files of read-only mounts be executed, such as those of a virtual environment. What
    /// lies in a writable mount never is, so that nothing runs that was written inside.
    #[must_use]
    pub const fn executing_read_only(mut self) -> Self {
        self.executes_read_only = true;
        self
    }

    /// Bounds the memory that each process may write to, instead of its address space, of which
    /// some runtimes reserve far more than they use. A control group bounds both alike.
    #[must_use]
    pub const fn reserving_addresses(mut self) -> Self {
        self.reserves_addresses = true;
        self
    }
}

fn env(grants: &Grants) -> Vec<(String, String)> {
    grants.env.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Says whether a native program under `grants` may use the network: it cannot be held to hosts
/// or ports, so it gets the whole of it or none.
pub fn grants_network(grants: &Grants) -> bool {
    let rules = grants.network.as_ref();
    rules.is_some_and(|rules| rules.hosts == HostRules::Any && !rules.block_private)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test moves what the jail has open")]
    fn a_narrowed_jail_keeps_the_directories_it_has_wherever_their_paths_lead_by_now() {
        use cap_std::fs::MetadataExt as _;

        let temp = tempfile::tempdir().unwrap();
        let path = |name: &str| temp.path().join(name);
        let mounts = ["a", "b"].map(|name| {
            std::fs::create_dir(path(name)).unwrap();
            let (guest, access) = (format!("/{name}"), Access::ReadWrite);
            Mount { host: path(name), guest, access, create: false }
        });
        let grants = Grants { mounts: mounts.to_vec(), ..Grants::default() };
        let jail = JailSpec::granted(&grants).unwrap();
        std::fs::rename(path("a"), path("c")).unwrap();
        std::os::unix::fs::symlink("/", path("a")).unwrap();
        let narrowed = jail.narrowed(&[Some(Access::ReadOnly), None], &grants).unwrap();
        let [only] = narrowed.mounts.as_slice() else { panic!("{narrowed:?}") };
        let own = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path("c")).unwrap());
        assert_eq!((only.dir.dir_metadata().unwrap().ino(), only.writable), (own, false));
        assert!(jail.narrowed(&[None, None], &grants).is_err());
    }
}
