//! `audit`: where copies of the record go that policies ask for.

use std::path::{Path, PathBuf};

use super::Settings;
use super::reader::Reader;
use crate::manifest::node::Node;
use crate::manifest::problem::{DocumentError, Problems};
use crate::manifest::sandbox::tidy;
use crate::policy::{Destination, PolicySet};

/// `audit`: where copies of the record go that policies ask for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditSettings {
    /// The URL that a policy's `destination: webhook` means; the protocol has no key for it.
    pub webhook: Option<String>,
    /// The socket that `destination: syslog` means; the system's own where absent.
    pub syslog: Option<PathBuf>,
}

impl Reader {
    /// Takes over both keys, each where it is there.
    pub(super) fn take_audit(&mut self, root: &Node, base: &Path) {
        if let Some(socket) = root.text(&["audit", "syslog"]) {
            self.settings.audit.syslog = Some(tidy(&base.join(socket)));
        }
        if let Some(url) = root.text(&["audit", "webhook"]) {
            self.settings.audit.webhook = Some(url.to_owned());
        }
    }
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
