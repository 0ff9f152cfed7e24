//! What a jailed program may open, as a Landlock ruleset.
//!
//! Everything not named here is closed. The kernel executes nothing in a mount that can be written,
//! and in a read-only one only for those that ask for it: any other jailed program starts only what
//! the system's owner installed, which may in turn run what it reads there.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use super::{JailError, JailSpec};

/// The newest ABI whose rights this file was written for.
const ABI_KNOWN: u32 = 7;

/// Where programs and libraries lie, on most systems all of them.
pub(super) const USR: &str = "/usr";
/// Programs and libraries: read and execute. `/lib` and its variants are added to these.
const PROGRAMS: [&str; 2] = [USR, "/bin"];
/// Data that programs need to start and to check certificates; no private keys.
const DATA: [&str; 9] = [
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload",
    "/etc/alternatives", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
];
/// Data that finding hosts needs: only with the network.
const NAMES: [&str; 5] =
    ["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services", "/etc/gai.conf"];
/// Devices to read and to write.
const SINKS: [&str; 2] = ["/dev/null", "/dev/zero"];
const SOURCES: [&str; 1] = ["/dev/urandom"];

/// Returns the part of the kernel's ABI that is used.
pub(super) fn abi_used(kernel: u32) -> u32 {
    kernel.min(ABI_KNOWN)
}

/// Returns all that is open beside the mounts, on whichever system.
pub(super) fn system(network: bool) -> impl Iterator<Item = PathBuf> {
    let names = if network { NAMES.as_slice() } else { &[] };
    let named = [&PROGRAMS, DATA.as_slice(), &SINKS, &SOURCES, names].concat();
    named.into_iter().map(PathBuf::from).chain(libraries())
}

/// Builds the ruleset of `spec` for a kernel that has ABI `abi` (from 1 up).
pub(super) fn ruleset(spec: &JailSpec, abi: u32) -> Result<OwnedFd, JailError> {
    let abi = ABI::from(i32::try_from(abi).unwrap_or(0));
    let made = build(spec, abi).map_err(|e| JailError::Denied(format!("Landlock: {e}")))?;
    Option::<OwnedFd>::from(made)
        .ok_or_else(|| JailError::Denied("this kernel has no Landlock".to_owned()))
}

fn build(spec: &JailSpec, abi: ABI) -> Result<RulesetCreated, RulesetError> {
    let mut rules = handled(spec.network, abi)?.create()?;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let programs = PROGRAMS.iter().map(PathBuf::from).chain(libraries());
    rules = allow_paths(rules, programs, read | AccessFs::Execute)?;
    rules = allow_paths(rules, DATA, read)?;
    rules = allow_paths(rules, SINKS, AccessFs::ReadFile | AccessFs::WriteFile)?;
    rules = allow_paths(rules, SOURCES, AccessFs::ReadFile.into())?;
    if spec.network {
        rules = allow_paths(rules, NAMES, read)?;
    }
    if let Some(image) = &spec.image {
        let access = AccessFs::ReadFile | AccessFs::Execute;
        rules = rules.add_rule(PathBeneath::new(image.as_fd(), access))?;
    }
    for mount in &spec.mounts {
        let access = match mount.writable {
            true => read | writing(abi),
            false if spec.executes_read_only => read | AccessFs::Execute,
            false => read,
        };
        rules = rules.add_rule(PathBeneath::new(mount.dir.as_fd(), access))?;
    }
    Ok(rules)
}

/// What is closed unless a rule opens it: all that this kernel and this file know of. The ABI is
/// known to be there, so that anything less is an error.
fn handled(network: bool, abi: ABI) -> Result<Ruleset, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    if abi >= ABI::V4 && !network {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
    }
    if abi >= ABI::V6 {
        ruleset = ruleset.scope(Scope::from_all(abi))?;
    }
    Ok(ruleset)
}

/// All ways of writing but making devices and sockets and commanding devices.
fn writing(abi: ABI) -> BitFlags<AccessFs> {
    let never = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock | AccessFs::IoctlDev;
    AccessFs::from_write(abi) & !never
}

/// Opens `paths` to `access`. A path that is not on this system needs no rule.
fn allow_paths<P: AsRef<Path>>(
    mut rules: RulesetCreated,
    paths: impl IntoIterator<Item = P>,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    for path in paths {
        let Ok(handle) = PathFd::new(&path) else {
            continue;
        };
        let access = if path.as_ref().is_dir() { access } else { access & !AccessFs::ReadDir };
        rules = rules.add_rule(PathBeneath::new(handle, access))?;
    }
    Ok(rules)
}

/// Returns `/lib` and its variants (`/lib64`, `/libx32` …).
fn libraries() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir("/") else {
        return Vec::new();
    };
    let has_libraries = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(is_of_libraries)
    };
    entries.flatten().map(|entry| entry.path()).filter(has_libraries).collect()
}

/// Whether the system keeps libraries under this name: whatever else begins with `lib` is a folder
/// of somebody's own.
fn is_of_libraries(name: &str) -> bool {
    let variant = name.strip_prefix("lib");
    variant.is_some_and(|it| it == "x32" || it.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_systems_own_names_are_those_of_libraries() {
        for name in ["lib", "lib32", "lib64", "libx32"] {
            assert!(is_of_libraries(name), "{name}");
        }
        for name in ["library", "libexec", "lib.old", "lib64 ", "libx", "li", "mylib", "usr"] {
            assert!(!is_of_libraries(name), "{name}");
        }
    }
}
