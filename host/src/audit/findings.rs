//! What screens find while a call runs, for its closing record, however the call ends.

use std::sync::Arc;

use clawhost_core::limits::MEANWHILE_FINDINGS_MAX;
use clawhost_core::screen::Finding;
use parking_lot::Mutex;

/// Findings that are still to be recorded, each once. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings(Arc<Mutex<Vec<Finding>>>);

impl Findings {
    /// Takes note of what was found.
    pub(crate) fn see(&self, findings: Vec<Finding>) {
        let mut all = self.0.lock();
        for finding in findings {
            if all.len() < MEANWHILE_FINDINGS_MAX && !all.contains(&finding) {
                all.push(finding);
            }
        }
    }

    /// Returns what there is by now.
    pub(super) fn take(&self) -> Vec<Finding> {
        std::mem::take(&mut *self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use clawhost_core::screen::{Action, PROMPT_INJECTION};

    use super::*;

    #[test]
    fn what_is_found_again_and_again_is_kept_once_and_not_without_end() {
        let finding = |what: usize| Finding {
            check: PROMPT_INJECTION,
            policy: "p".to_owned(),
            what: what.to_string(),
            action: Action::Warn,
        };
        let found = Findings::default();
        (0..3).for_each(|_| found.see(vec![finding(1), finding(2)]));
        assert_eq!(found.take(), [finding(1), finding(2)]);
        (0..2 * MEANWHILE_FINDINGS_MAX).for_each(|what| found.see(vec![finding(what)]));
        assert_eq!((found.take().len(), found.take().len()), (MEANWHILE_FINDINGS_MAX, 0));
    }
}
