//! What every reply passes on its way out: the result schemas, the screens, the secrets, and last
//! the size cap.

use std::sync::Arc;

use clawhost_core::error::CallError;
use clawhost_core::limits::SCREENED_AT_ONCE_BYTES_MAX;
use clawhost_core::policy::PolicySet;
use clawhost_core::redact::Redactor;
use clawhost_core::reply::{Content, ToolReply};
use clawhost_core::schema::Schema;
use clawhost_core::screen::Finding;
use clawhost_core::truncate;
use serde_json::Value;

use crate::offload;

/// What replies of one host are held against.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) redactor: Arc<Redactor>,
    pub(super) bytes_max: usize,
}

impl Filter {
    /// Returns `reply` checked against the result schemas, screened by each of `policies`,
    /// without secrets and cut to size; and what the screens found.
    pub(super) fn apply(
        &self,
        schemas: &[&Schema],
        reply: ToolReply,
        policies: &[&PolicySet],
    ) -> (Result<ToolReply, CallError>, Vec<Finding>) {
        let reply = check(schemas, reply);
        // Searched, or measured and cut, off the threads that serve where it takes long.
        let is_long = reply.bytes() > SCREENED_AT_ONCE_BYTES_MAX;
        offload::blocking(is_long, || self.screened(reply, policies))
    }

    fn screened(
        &self,
        mut reply: ToolReply,
        policies: &[&PolicySet],
    ) -> (Result<ToolReply, CallError>, Vec<Finding>) {
        let mut findings = Vec::new();
        for policy in policies {
            let screened = policy.screens().output(reply);
            findings.extend(screened.findings);
            if let Some(blocked) = screened.blocked {
                return (Err(blocked), findings);
            }
            reply = screened.value;
        }
        (Ok(truncate::reply(self.redactor.reply(reply), self.bytes_max)), findings)
    }
}

/// A result that breaks the tool's own promise is a failed result, not an answer.
fn check(schemas: &[&Schema], reply: ToolReply) -> ToolReply {
    if reply.is_error || schemas.is_empty() {
        return reply;
    }
    let structured = reply.structured.as_ref().unwrap_or(&Value::Null);
    match schemas.iter().find_map(|schema| offload::check(schema, structured).err()) {
        None => reply,
        Some(reason) => {
            let text = "the tool's result does not match its output schema".to_owned();
            ToolReply {
                internal: Some(reason),
                content: vec![Content::Text(text)],
                ..ToolReply::error("invalid-result", "")
            }
        }
    }
}
