//! `audit`: where copies of the record go that policies ask for.

use std::path::{Path, PathBuf};

use super::Settings;
use crate::manifest::problem::{DocumentError, Problems};
use crate::policy::{Destination, PolicySet};

/// `audit`: where copies of the record go that policies ask for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditSettings {
    /// The URL that a policy's `destination: webhook` means; the protocol has no key for it.
    pub webhook: Option<String>,
    /// The socket that `destination: syslog` means; the system's own where absent.
    pub syslog: Option<PathBuf>,
}

impl Settings {
    /// Reports a policy that sends records to a webhook nobody named.
    pub(super) fn check_audit(&self, policies: &PolicySet, problems: &mut Problems) {
        let wanted = policies.audit().destinations.contains(&Destination::Webhook);
        if wanted && self.audit.webhook.is_none() {
            problems.push(DocumentError::whole_file(
                Path::new("clawhost.yaml"),
                "a policy's `audit.destination` is `webhook`, and nothing says where that is",
                Some("write `audit: { webhook: https://… }`, or set CLAWHOST_AUDIT_WEBHOOK"),
            ));
        }
    }
}
