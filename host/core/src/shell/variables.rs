//! Which variables a caller may not set: those that change which code a program runs, or
//! where it finds its messages, which it trusts like code.

use super::rules::Refusal;
use crate::grants::is_variable_name;

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
    "BROWSER", "CDPATH", "CLASSPATH", "EDITOR", "ENV", "HOME", "IFS", "LANGUAGE", "PAGER", "PATH",
    "PS4", "SHELL", "SHELLOPTS", "VISUAL",
];

/// Checks a variable that a caller sets for a program.
///
/// # Errors
/// The name is none, the value cannot be one, or it may change which code runs.
pub fn check_variable(name: &str, value: &str) -> Result<(), Refusal> {
    if !is_variable_name(name) || value.contains('\0') {
        return Err(Refusal::new(format!("no environment can hold `{name}` with this value")));
    }
    if changes_code(name) {
        return Err(Refusal::new(format!(
            "`{name}` may change which code runs, so no caller sets it"
        )));
    }
    Ok(())
}

/// Says whether the variable `name` may change which code a program runs.
fn changes_code(name: &str) -> bool {
    NAMES.contains(&name) || FAMILIES.iter().any(|family| name.starts_with(family))
}
