//! What every reply passes on its way out: the result schemas, the screens, the secrets, and last
//! the size cap.

use std::sync::Arc;

use clawhost_core::error::CallError;
use clawhost_core::limits::SCREENED_AT_ONCE_BYTES_MAX;
use clawhost_core::policy::PolicySet;
use clawhost_core::redact::Redactor;
use clawhost_core::reply::{Content, ResourceBody, ToolReply};
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
        let searches =
            !self.redactor.is_empty() || policies.iter().any(|policy| !policy.screens().is_off());
        // Measuring a structured result writes it out: only where somebody searches it.
        let is_long = searches && size(&reply) > SCREENED_AT_ONCE_BYTES_MAX;
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

/// Returns about how much there is to search.
fn size(reply: &ToolReply) -> usize {
    let blocks = reply.content.iter().map(|block| match block {
        Content::Text(text) => text.len(),
        Content::Audio { data, .. } | Content::Image { data, .. } => data.len(),
        Content::Resource { body: ResourceBody::Text(text), .. } => text.len(),
        Content::Resource { body: ResourceBody::Bytes(bytes), .. } => bytes.len(),
    });
    let structured = reply.structured.as_ref().map_or(0, |value| value.to_string().len());
    blocks.sum::<usize>() + structured
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
