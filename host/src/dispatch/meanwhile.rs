//! What passes between a caller and whoever runs its call before the call ends: what is asked, what is
//! answered to that, and what is told of progress. It is held against what results and arguments are.

use std::sync::{Arc, Weak};

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::SCREENED_AT_ONCE_BYTES_MAX;
use clawhost_core::reply::{Content, ToolReply, json_bytes};
use clawhost_core::visible;
use serde_json::Value;

use super::{Dispatch, ToolCall};
use crate::audit::Findings;
use crate::dialogue::Caller;
use crate::gate::{CallContext, SessionTerms};
use crate::offload;
use crate::progress::ProgressSink;

/// What decides about it, without what leads back to the call.
#[derive(Clone)]
struct Between {
    path: Weak<Dispatch>,
    session: Option<Arc<SessionTerms>>,
    found: Findings,
}

impl Dispatch {
    /// Returns who waits for the answer to `call`, with nothing between the two that is not looked at. What is found
    /// goes to `found`.
    pub(super) fn caller(&self, call: &ToolCall, found: &Findings) -> Caller {
        let (path, session) = (Weak::clone(&self.own), call.context.session.clone());
        let between = Between { path, session, found: found.clone() };
        if let Some(asks) = call.context.dialogue.as_ref().and_then(|it| it.asks.as_ref()) {
            let (asked, answered) = (between.clone(), between.clone());
            asks.cleaned_by(move |it| asked.asked(it), move |it| answered.answered(it));
        }
        let caller = call.caller();
        let progress = caller.progress.map(|sink| told(sink, between));
        Caller { progress, ..caller }
    }
}

/// Returns `sink` for those whose words are looked at.
fn told(sink: ProgressSink, between: Between) -> ProgressSink {
    Arc::new(move |done, total, message| {
        sink(done, total, message.and_then(|message| between.told(message)));
    })
}

impl Between {
    fn context(&self) -> CallContext {
        CallContext { session: self.session.clone(), ..CallContext::default() }
    }

    /// Returns what a server asks as a client may see it: cleaned as errors are.
    fn asked(&self, asked: Value) -> Option<Value> {
        const ASKED: &str = "asked";
        let error = CallError::new(ErrorKind::Internal, "").with(ASKED, asked);
        self.path.upgrade()?.cleaned(error, &self.context()).data.remove(ASKED)
    }

    /// Returns what a client answers, where it could be the argument of a call.
    fn answered(&self, answers: Value) -> Option<Value> {
        let (path, context) = (self.path.upgrade()?, self.context());
        let terms = path.terms();
        let is_long = json_bytes(&answers) > SCREENED_AT_ONCE_BYTES_MAX;
        let passes = || {
            terms.gate.lists(&context).all(|policies| {
                let screened = policies.screens().input(&answers);
                self.found.see(screened.findings);
                screened.blocked.is_none()
            })
        };
        offload::blocking(is_long, passes).then_some(answers)
    }

    /// Returns a word on progress as it could be in a result, without what hides; nothing where the result would be
    /// refused. It is short.
    fn told(&self, mut message: String) -> Option<String> {
        let (path, context) = (self.path.upgrade()?, self.context());
        let terms = path.terms();
        message.retain(visible::is_plain);
        let mut reply = ToolReply { content: vec![Content::Text(message)], ..ToolReply::default() };
        for policies in terms.gate.lists(&context) {
            let screened = policies.screens().output(reply, path.parts.secrets.tokens());
            self.found.see(screened.findings);
            if screened.blocked.is_some() {
                return None;
            }
            reply = screened.value;
        }
        reply.texts().next().map(str::to_owned)
    }
}
