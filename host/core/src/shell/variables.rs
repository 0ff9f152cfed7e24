//! Which variables a caller may not set: those that change which code a program runs, or
//! where it finds its messages, which it trusts like code.

/// Beginnings of their names: the loader, shells, interpreters, and what programs take commands
/// and configuration from.
const FAMILIES: &[&str] = &[
    "BASH", "CARGO", "DYLD_", "GCC_", "GCONV_", "GIT_", "GLIBC_", "JAVA_", "LD_", "LESS",
    "LOCPATH", "LUA_", "MAKE", "MALLOC_", "NLSPATH", "NODE_", "NPM_", "OPENSSL_", "PERL", "PHP",
    "PIP_", "PROMPT_", "PYTHON", "RUBY", "RUST", "SSH_", "SUDO_", "XDG_", "ZDOTDIR", "_JAVA_",
    "npm_",
];

/// Whole names, likewise.
const NAMES: &[&str] = &[
    "BROWSER",
    "CDPATH",
    "CLASSPATH",
    "EDITOR",
    "ENV",
    "HOME",
    "IFS",
    "LANGUAGE",
    "PAGER",
    "PATH",
    "PS4",
    "SHELL",
    "SHELLOPTS",
    "VISUAL",
];

/// Says whether the variable `name` may change which code a program runs.
pub(super) fn changes_code(name: &str) -> bool {
    NAMES.contains(&name) || FAMILIES.iter().any(|family| name.starts_with(family))
}
