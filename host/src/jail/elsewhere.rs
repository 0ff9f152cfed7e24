//! Systems without a jail: every command is refused.

use super::{Command, JailError, JailSpec, Outcome, Support};

/// Refuses: there is no jail on this system.
///
/// # Errors
/// Always [`JailError::Denied`].
pub async fn run(_spec: &JailSpec, _command: Command) -> Result<Outcome, JailError> {
    Err(JailError::Denied("native programs need Linux with Landlock and seccomp".to_owned()))
}

/// Returns that nothing is supported.
pub fn support() -> Support {
    Support::default()
}
