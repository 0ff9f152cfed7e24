//! Which system calls a jailed program may not make, as seccomp programs.
//!
//! A list of what is refused: the programs are the system's own and need most of the rest.
//! Numbers newer than this file, and those of other ways into the kernel, do not exist inside,
//! so that the list cannot be passed by what it does not know.

use std::collections::BTreeMap;

use libc::{c_int, c_long};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

use super::JailError;

/// What a filter depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs {
    /// Whether internet sockets may be opened.
    pub(super) network: bool,
    /// The Landlock ABI in force: from [`ABI_TRUNCATION`] up it looks at files that are emptied,
    /// from [`ABI_SIGNALS`] up it keeps signals inside.
    pub(super) landlock_abi: u32,
    /// Whether process ids are its own, so that none of them names a process outside.
    pub(super) own_process_ids: bool,
}

/// The Landlock ABI from which emptying a file is a right.
const ABI_TRUNCATION: u32 = 3;
/// The Landlock ABI from which signals stay inside.
const ABI_SIGNALS: u32 = 6;

/// System calls from this number up do not exist inside (463 is `setxattrat` of Linux 6.13).
/// Numbers are the same on every architecture from 424 up. The 32-bit calls of x86-64 ("x32")
/// have bit 30 set and so are above it too.
const FIRST_UNKNOWN: u32 = 463;

/// Never, whatever the arguments.
const REFUSED: &[c_long] = &[
    // Leaving the session or the group, which are what is killed.
    libc::SYS_setsid,
    libc::SYS_setpgid,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // A second way to nearly every call.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    // Files by number instead of by path, programs without a file, watching others' files.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_fanotify_init,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    // Attributes of files by path, which Landlock does not look at.
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    // Memory and queues shared with processes outside.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
    // The kernel itself.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// `fchmodat2` of Linux 6.6, which the C library's binding does not have everywhere.
const FCHMODAT2: c_long = 452;

/// Calls only x86-64 still has.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[c_long] = &[
    libc::SYS_inotify_init,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_kexec_file_load,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
];
/// Calls only this architecture has.
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[c_long] = &[libc::SYS_kexec_file_load];

/// Namespaces a `clone` could make.
const NEW_NAMESPACES: c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Attributes through an open file, which Landlock does not look at either. They are answered as a
/// file system does that has none: programs that copy files go on then, as they do not when refused.
const ATTRIBUTES: [c_long; 2] = [libc::SYS_fsetxattr, libc::SYS_fremovexattr];

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;
type Built<T> = Result<T, seccompiler::BackendError>;

/// Compiles the filters, each of which every call has to pass.
pub(super) fn programs(needs: Needs) -> Result<Vec<BpfProgram>, JailError> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Err(JailError::Denied("no seccomp filter for this architecture".to_owned()));
    };
    let mut programs =
        compiled(needs, arch).map_err(|error| JailError::Denied(format!("seccomp: {error}")))?;
    programs.push(unknown_calls());
    Ok(programs)
}

/// Compiles what is refused by name or argument, one filter for each answer or reason.
fn compiled(needs: Needs, arch: TargetArch) -> Built<Vec<BpfProgram>> {
    // These hide flags and modes from filters; without them programs use `clone` and `openat`.
    let absent = [libc::SYS_clone3, libc::SYS_openat2];
    let mut programs = vec![
        compile(refused(needs)?, libc::EPERM, arch)?,
        compile(whole(absent), libc::ENOSYS, arch)?,
        compile(whole(ATTRIBUTES), libc::EOPNOTSUPP, arch)?,
    ];
    if !needs.own_process_ids {
        programs.push(compile(processes()?, libc::EPERM, arch)?);
    }
    if !needs.own_process_ids && needs.landlock_abi < ABI_SIGNALS {
        programs.push(compile(signals()?, libc::EPERM, arch)?);
    }
    Ok(programs)
}

/// Rules that hold `calls` whatever their arguments.
fn whole<const N: usize>(calls: [c_long; N]) -> Rules {
    Rules::from(calls.map(|call| (call, Vec::new())))
}

/// Compiles `rules` into a program that answers them with `error` and lets the rest pass.
fn compile(rules: Rules, error: c_int, arch: TargetArch) -> Built<BpfProgram> {
    let answer = SeccompAction::Errno(error.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)?.try_into()
}

fn refused(needs: Needs) -> Built<Rules> {
    let always = REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new()));
    let mut rules: Rules = always.collect();
    rules.extend(by_argument()?);
    rules.extend(modes()?);
    rules.extend(opens(needs.landlock_abi)?);
    if needs.network {
        // Internet sockets, of any type this user may open; no Unix sockets, behind which
        // other programs of the machine listen.
        let internet = [libc::AF_INET, libc::AF_INET6];
        let others = internet.map(|family| when(0, Len::Dword, Op::Ne, number(family)));
        let [not_4, not_6] = others;
        rules.insert(libc::SYS_socket, vec![SeccompRule::new(vec![not_4?, not_6?])?]);
    } else {
        rules.insert(libc::SYS_socket, Vec::new());
    }
    if needs.landlock_abi < ABI_TRUNCATION {
        rules.insert(libc::SYS_truncate, Vec::new());
    }
    Ok(rules)
}

/// Calls refused for some of their arguments.
fn by_argument() -> Built<Rules> {
    let namespaces = number(NEW_NAMESPACES);
    let mut clone = Vec::new();
    for bit in (0..u64::BITS).map(|shift| 1_u64 << shift).filter(|bit| namespaces & bit != 0) {
        clone.push(one(0, Len::Qword, Op::MaskedEq(bit), bit)?);
    }
    Ok(Rules::from([
        (libc::SYS_clone, clone),
        // The signal that ends the program with its keeper stays as it is.
        (libc::SYS_prctl, vec![one(0, Len::Dword, Op::Eq, number(libc::PR_SET_PDEATHSIG))?]),
        // Typing into a terminal.
        (
            libc::SYS_ioctl,
            vec![one(1, Len::Dword, Op::Eq, TIOCSTI)?, one(1, Len::Dword, Op::Eq, TIOCLINUX)?],
        ),
        // Limits of another process, also of the one that heads a namespace.
        (libc::SYS_prlimit64, vec![one(0, Len::Dword, Op::Ne, 0)?]),
        // Times of files by path; those of an open file pass, its path being null.
        (libc::SYS_utimensat, vec![one(1, Len::Qword, Op::Ne, 0)?]),
    ]))
}

/// Mode bits that make a program run as the file's owner or group, whoever starts it.
const SET_IDS: [u64; 2] = [libc::S_ISUID as u64, libc::S_ISGID as u64];
/// Flags with which an open call makes a file and looks at its mode.
const MAKES: [c_int; 2] = [libc::O_CREAT, libc::O_TMPFILE];
/// Calls that take a mode, and which argument it is.
const MODES: [(c_long, u8); 3] =
    [(libc::SYS_fchmod, 1), (libc::SYS_mkdirat, 2), (libc::SYS_mknodat, 2)];
/// Calls that take flags, and which argument these are; the mode is the one after.
const OPENS: [(c_long, u8); 1] = [(libc::SYS_openat, 2)];
/// The same of calls that only x86-64 still has.
#[cfg(target_arch = "x86_64")]
const MODES_HERE: [(c_long, u8); 3] =
    [(libc::SYS_creat, 1), (libc::SYS_mkdir, 1), (libc::SYS_mknod, 1)];
#[cfg(target_arch = "x86_64")]
const OPENS_HERE: [(c_long, u8); 1] = [(libc::SYS_open, 1)];
#[cfg(not(target_arch = "x86_64"))]
const MODES_HERE: [(c_long, u8); 0] = [];
#[cfg(not(target_arch = "x86_64"))]
const OPENS_HERE: [(c_long, u8); 0] = [];

/// The bits of an open call's flags that say whether it reads or writes. Both are a mode of their
/// own (`open(2)`), which does neither: Landlock asks for no right then, whatever the file.
const ACCESS_MODES: c_int = libc::O_WRONLY | libc::O_RDWR;

/// Making a file that runs as its owner, which is the host's user or the workspace's.
fn modes() -> Built<Rules> {
    let mut rules = Rules::new();
    for (call, mode) in MODES.into_iter().chain(MODES_HERE) {
        let refused = SET_IDS.map(|bit| SeccompRule::new(vec![has(mode, bit)?]));
        rules.insert(call, refused.into_iter().collect::<Built<_>>()?);
    }
    Ok(rules)
}

/// Opening a file in ways that Landlock does not look at, or making one as [`modes`] has it.
fn opens(landlock_abi: u32) -> Built<Rules> {
    let mut rules = Rules::new();
    for (call, flags) in OPENS.into_iter().chain(OPENS_HERE) {
        let pairs = SET_IDS.into_iter().flat_map(|bit| MAKES.map(|makes| (bit, number(makes))));
        let made = pairs
            .map(|(bit, makes)| SeccompRule::new(vec![has(flags, makes)?, has(flags + 1, bit)?]));
        let mut refused = made.collect::<Built<Vec<_>>>()?;
        refused.push(SeccompRule::new(vec![has(flags, number(ACCESS_MODES))?])?);
        if landlock_abi < ABI_TRUNCATION {
            // Only reading, and yet the kernel empties the file.
            let mask = number(libc::O_TRUNC | ACCESS_MODES);
            refused.push(one(flags, Len::Dword, Op::MaskedEq(mask), number(libc::O_TRUNC))?);
        }
        rules.insert(call, refused);
    }
    Ok(rules)
}

/// All of these bits are set in an argument.
fn has(argument: u8, bits: u64) -> Built<SeccompCondition> {
    when(argument, Len::Dword, Op::MaskedEq(bits), bits)
}

/// Puts a character into a terminal's input.
const TIOCSTI: u64 = 0x5412;
/// Among others, pastes a selection into a console's input.
const TIOCLINUX: u64 = 0x541C;

/// Calls that change how the process runs which their first argument names; 0 is the caller.
const SCHEDULES: [c_long; 4] = [
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
];
/// Calls that set a priority: which argument says that all processes of a user are meant. The next
/// one names a process, a group or a user; 0 is the caller's.
const PRIORITIES: [(c_long, u64); 2] =
    [(libc::SYS_setpriority, PRIO_USER), (libc::SYS_ioprio_set, IOPRIO_WHO_USER)];
/// The C library's binding has it in two types.
const PRIO_USER: u64 = 2;
/// Of the kernel's `ioprio.h`.
const IOPRIO_WHO_USER: u64 = 3;

/// How other processes run, where their ids are seen inside. A filter cannot tell whose an id is,
/// so that only the caller itself and its group are left.
fn processes() -> Built<Rules> {
    let mut rules = Rules::new();
    for call in SCHEDULES {
        rules.insert(call, vec![one(0, Len::Dword, Op::Ne, 0)?]);
    }
    for (call, user) in PRIORITIES {
        let of_user = one(0, Len::Dword, Op::Eq, user)?;
        rules.insert(call, vec![of_user, one(1, Len::Dword, Op::Ne, 0)?]);
    }
    Ok(rules)
}

/// Calls that signal a process or a thread by its id, or get a handle for that.
const SIGNALS: [c_long; 6] = [
    // `abort` uses it; where it is refused the C library ends the program by a bad instruction.
    libc::SYS_tgkill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
];
/// Commands of `fcntl` that choose who is signalled about a file, by whatever signal: `F_SETOWN`
/// and `F_SETOWN_EX`.
const OWNERS: [u64; 2] = [8, 15];
/// The same of `ioctl`: `FIOSETOWN` and `SIOCSPGRP`.
const OWNERS_OF_SOCKETS: [u64; 2] = [0x8901, 0x8902];

/// Signals to any process but those of the caller's own group, which no process can leave.
fn signals() -> Built<Rules> {
    let mut rules = whole(SIGNALS);
    rules.insert(libc::SYS_kill, vec![one(0, Len::Dword, Op::Ne, 0)?]);
    for (call, commands) in [(libc::SYS_fcntl, OWNERS), (libc::SYS_ioctl, OWNERS_OF_SOCKETS)] {
        let refused = commands.map(|command| one(1, Len::Dword, Op::Eq, command));
        rules.insert(call, refused.into_iter().collect::<Built<_>>()?);
    }
    Ok(rules)
}

fn when(argument: u8, len: Len, op: Op, value: u64) -> Built<SeccompCondition> {
    SeccompCondition::new(argument, len, op, value)
}

fn one(argument: u8, len: Len, op: Op, value: u64) -> Built<SeccompRule> {
    SeccompRule::new(vec![when(argument, len, op, value)?])
}

/// A constant of the C library as the filter sees it: 32 bits without a sign.
fn number(constant: c_int) -> u64 {
    u64::from(constant.cast_unsigned())
}

/// Answers every call from [`FIRST_UNKNOWN`] up as a kernel does that does not have it.
fn unknown_calls() -> BpfProgram {
    let statement =
        |code: u16, jump_else: u8, k: u32| sock_filter { code, jt: 0, jf: jump_else, k };
    let not_there = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    vec![
        statement(LOAD_WORD, 0, 0),
        statement(JUMP_IF_AT_LEAST, 1, FIRST_UNKNOWN),
        statement(RETURN, 0, not_there),
        statement(RETURN, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

/// `BPF_LD | BPF_W | BPF_ABS`; at offset 0 is the number of the call.
const LOAD_WORD: u16 = 0x20;
/// `BPF_JMP | BPF_JGE | BPF_K`.
const JUMP_IF_AT_LEAST: u16 = 0x35;
/// `BPF_RET | BPF_K`.
const RETURN: u16 = 0x06;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_compiles_to_what_the_kernel_accepts() {
        /// `BPF_MAXINSNS`.
        const INSTRUCTIONS_MAX: usize = 4_096;
        for network in [false, true] {
            for (landlock_abi, own_process_ids) in [(1, false), (1, true), (3, true), (7, false)] {
                let needs = Needs { network, landlock_abi, own_process_ids };
                let programs = programs(needs).unwrap();
                assert!(programs.iter().all(|p| (1..=INSTRUCTIONS_MAX).contains(&p.len())));
            }
        }
    }
}
