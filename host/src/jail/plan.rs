//! All that the child needs between fork and exec, built before the fork.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::Resource;
use seccompiler::BpfProgram;

use super::cgroup::Group;
use super::filter::Needs;
use super::identity::{Identity, tasks_of};
use super::namespaces::Namespaces;
use super::support::support;
use super::{JailError, JailSpec, files, filter, sys};

/// Handles and numbers; using them takes system calls only.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) workdir: OwnedFd,
    pub(super) ruleset: OwnedFd,
    pub(super) filters: Vec<BpfProgram>,
    pub(super) identity: Identity,
    /// Where the program enters its control group.
    pub(super) members: Vec<OwnedFd>,
    pub(super) limits: [(Resource, u64); LIMITS],
    pub(super) namespaces: Option<Namespaces>,
    /// The keeper's end of the leash.
    pub(super) leash: OwnedFd,
    pub(super) image: Option<Image>,
    /// Priority, as it is stated and as text; none where it is the host's.
    pub(super) nice: Option<(i32, String)>,
}

/// An open program and its words, of which there are no more than are [passed on](sys::WORDS_MAX).
#[derive(Debug)]
pub(super) struct Image {
    pub(super) program: OwnedFd,
    pub(super) words: Vec<CString>,
}

/// Jails whose processes are counted as one, where the kernel does not count each for itself.
/// A bound for the safety of the system: any less, and a jail that started early could not
/// fork for those that started after it.
const SHARERS: u64 = 8;

/// How many resources are limited.
const LIMITS: usize = 5;

impl Image {
    fn of(spec: &JailSpec, argv: &[String]) -> Result<Option<Self>, JailError> {
        let Some(image) = &spec.image else { return Ok(None) };
        let words = argv.iter().map(|word| CString::new(word.as_str()));
        let words = words.collect::<Result<Vec<_>, _>>().ok();
        let words = words
            .filter(|words| words.len() <= sys::WORDS_MAX)
            .ok_or_else(|| JailError::Failed("these are no words for a program".to_owned()))?;
        Ok(Some(Self { program: keep(image.as_fd())?, words }))
    }
}

impl Plan {
    /// Builds the plan of one command of `spec`.
    ///
    /// # Errors
    /// [`JailError::Denied`] where this system cannot give a whole jail.
    pub(super) fn build(
        spec: &JailSpec,
        argv: &[String],
        group: Option<&Group>,
        leash: &OwnedFd,
    ) -> Result<Self, JailError> {
        let support = support();
        if !support.available() {
            return Err(JailError::Denied(format!("the jail is {support}")));
        }
        let Some(workdir) = spec.mounts.first() else {
            return Err(JailError::Denied("there is no directory to work in".to_owned()));
        };
        let landlock_abi = support.landlock_abi.min(spec.most.landlock_abi);
        let identity = Identity::of(workdir.dir.as_fd())?;
        let namespaces = Namespaces::of(spec)?;
        // As whatever user it runs: that one may have processes outside.
        let own_process_ids = namespaces.is_some();
        let needs = Needs { network: spec.network, landlock_abi, own_process_ids };
        let members = group.into_iter().flat_map(|group| &group.members);
        Ok(Self {
            workdir: keep(workdir.dir.as_fd())?,
            ruleset: keep(files::ruleset(spec, landlock_abi)?.as_fd())?,
            filters: filter::programs(needs)?,
            identity,
            members: members.map(keep).collect::<Result<_, _>>()?,
            limits: limits(spec, identity, namespaces.as_ref()),
            namespaces,
            leash: keep(leash.as_fd())?,
            image: Image::of(spec, argv)?,
            nice: (spec.nice != 0).then(|| (spec.nice, spec.nice.to_string())),
        })
    }
}

/// Copies a handle to a number above those of the three standard streams, which the child
/// replaces first.
fn keep(handle: impl AsFd) -> Result<OwnedFd, JailError> {
    let copy = handle.as_fd().try_clone_to_owned();
    copy.map_err(|error| JailError::Failed(format!("no descriptor left: {error}")))
}

fn limits(
    spec: &JailSpec,
    identity: Identity,
    namespaces: Option<&Namespaces>,
) -> [(Resource, u64); LIMITS] {
    let memory = if spec.reserves_addresses { Resource::Data } else { Resource::As };
    let most = u64::from(spec.limits.processes_max);
    // The kernel counts by user, and in each user namespace anew.
    let processes = if namespaces.is_some_and(Namespaces::count_alone) {
        // The init is counted, too, where it has the same user.
        most.saturating_add((identity == Identity::Same).into())
    } else {
        tasks_of(identity.uid()).saturating_add(most.saturating_mul(SHARERS))
    };
    [
        (memory, spec.limits.memory_bytes),
        (Resource::Nproc, processes),
        (Resource::Nofile, spec.limits.open_files_max.into()),
        (Resource::Fsize, spec.limits.file_bytes_max),
        (Resource::Core, 0),
    ]
}
