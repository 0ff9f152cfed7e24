//! `claw.tool.call`: from parameters to a call through the gate, once for each request id; and `claw.tool.progress`,
//! how it goes on, for clients that asked to hear it.

use std::sync::Arc;

use clawhost_core::digest;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::json::put;
use clawhost_core::manifest::Manifest;
use clawhost_core::reply::ToolReply;
use clawhost_core::uri::{ClawUri, Kind, LocalUri};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::content;
use super::notice::Notice;
use super::session::{Agreed, Answer, ClawSession, Inner, Ticket, until};
use crate::gate::CallContext;
use crate::host::{ProgressSink, ToolCall};
use crate::replay::{Key, Replay};
use crate::serve::calls::{Calls, guarded};
use crate::serve::message::{Fault, INVALID_REQUEST};
use crate::serve::params::Params;
use crate::serve::progress::growing;

/// What a call says, in the right shape.
struct CallParams {
    name: String,
    arguments: Value,
    request_id: String,
    identity: LocalUri,
    sandbox: Option<LocalUri>,
    policy: Option<LocalUri>,
}

impl CallParams {
    fn read(params: Params<'_>) -> Result<Self, Fault> {
        let name = params.name("name")?.to_owned();
        let arguments = Value::Object(params.object("arguments")?.clone());
        let context = Params::within(params.object("context")?, "context.");
        let request_id = context.request_id("request_id")?.to_owned();
        let identity = named(context, "identity", Kind::Identity, context.name("identity")?)?;
        let narrowed = |key: &str, kind| {
            let text = context.text_or_none(key)?;
            text.map(|text| named(context, key, kind, text)).transpose()
        };
        let sandbox = narrowed("sandbox", Kind::Sandbox)?;
        let policy = narrowed("policy", Kind::Policy)?;
        // A misspelt narrowing that is passed over would not narrow.
        context.only(&["request_id", "identity", "sandbox", "policy"])?;
        Ok(Self { name, arguments, request_id, identity, sandbox, policy })
    }

    /// Says what the call names that is not there.
    fn check(&self, base: &Manifest, agreed: &Agreed) -> Result<(), Fault> {
        let wrong = |key: &str, reason: &str| Err(Fault::param(&format!("context.{key}"), reason));
        let own = agreed.manifest.identity.as_str();
        if self.identity.name != base.identity && self.identity.name != own {
            return wrong("identity", "is neither the host's identity nor the session's");
        }
        let session = agreed.manifest.sandbox.as_ref();
        let known = |name: &str| {
            base.profile(name).is_some() || session.is_some_and(|own| own.name == name)
        };
        if self.sandbox.as_ref().is_some_and(|uri| !known(&uri.name)) {
            return wrong("sandbox", "is no sandbox of this host or of the session");
        }
        let session = agreed.manifest.policies.as_ref();
        let known = |name: &str| {
            base.policies.contains(name) || session.is_some_and(|session| session.contains(name))
        };
        if self.policy.as_ref().is_some_and(|uri| !known(&uri.name)) {
            return wrong("policy", "is no policy of this host or of the session");
        }
        self.check_versions(base, agreed)
    }

    /// Says what it names in a version that neither the host nor the session has.
    fn check_versions(&self, base: &Manifest, agreed: &Agreed) -> Result<(), Fault> {
        for uri in self.sandbox.iter().chain(&self.policy).chain([&self.identity]) {
            let own = agreed.manifest.version_of(uri.kind, &uri.name);
            if let Some(reason) = other_version(uri, [base.version_of(uri.kind, &uri.name), own]) {
                return Err(Fault::param(&format!("context.{}", uri.kind.segment()), reason));
            }
        }
        Ok(())
    }

    fn call<C: Calls>(self, session: &ClawSession<C>, agreed: &Agreed) -> ToolCall {
        let inner = session.inner();
        let progress =
            agreed.progress.then(|| progress(self.request_id.clone(), inner.notices.clone()));
        let context = CallContext {
            request_id: Some(self.request_id.to_ascii_lowercase()),
            sandbox: self.sandbox.map(|uri| uri.name),
            policy: self.policy.map(|uri| uri.name),
            session: Some(Arc::clone(&agreed.manifest)),
            trace: session.trace(),
            ..CallContext::default()
        };
        let call = ToolCall::new(inner.principal.clone(), self.name, self.arguments);
        ToolCall { progress, context, ..call }
    }
}

/// Returns where a call reports to. Reports are advice: one that finds no room is dropped, and one may come behind the
/// result.
fn progress(request_id: String, notices: mpsc::Sender<Notice>) -> ProgressSink {
    growing(move |done, total, text| {
        let mut params = json!({"request_id": request_id, "progress": done});
        put(&mut params, "total", total.map(Value::from));
        put(&mut params, "message", text.map(Value::from));
        let _ = notices.try_send(Notice::new("claw.tool.progress", &params));
    })
}

/// Returns what `text` names: it is a name, or a canonical address of that kind.
fn named(params: Params<'_>, key: &str, kind: Kind, text: &str) -> Result<LocalUri, Fault> {
    if !text.contains("://") {
        return Ok(LocalUri { kind, name: text.to_owned(), version: None });
    }
    match ClawUri::parse(text) {
        Ok(ClawUri::Local(uri)) if uri.kind == kind => Ok(uri),
        Ok(_) => Err(params
            .fault(key, format!("has to be a name or claw://local/{}/<name>", kind.segment()))),
        Err(error) => Err(params.fault(key, format!("is refused: {error}"))),
    }
}

/// Says what is wrong where an address names a version that is none of these.
fn other_version<const N: usize>(uri: &LocalUri, there: [Option<&str>; N]) -> Option<String> {
    let wanted = uri.version.as_deref().filter(|wanted| !there.contains(&Some(*wanted)))?;
    Some(format!("is not here in version {wanted}"))
}

impl<C: Calls> ClawSession<C> {
    /// Returns the name by which `text` means something of the host's, in the version that is there.
    pub(super) fn local_name(
        &self,
        params: Params<'_>,
        key: &str,
        kind: Kind,
        text: &str,
    ) -> Result<String, Fault> {
        let uri = named(params, key, kind, text)?;
        let manifest = self.inner().calls.services().manifest;
        let wrong = other_version(&uri, [manifest.version_of(kind, &uri.name)]);
        wrong.map_or(Ok(uri.name), |reason| Err(params.fault(key, reason)))
    }

    pub(super) fn tool_call(&self, params: Params<'_>) -> Result<Answer, Fault> {
        let asked = CallParams::read(params)?;
        let manifest = self.inner().calls.services().manifest;
        let ticket = self.ticket().and_then(|ticket| {
            asked.check(&manifest, &ticket.agreed)?;
            Ok(ticket)
        });
        let mut ticket = match ticket {
            Err(fault) => return Ok(self.refuse(asked, fault)),
            Ok(ticket) => ticket,
        };
        ticket.name(&asked.request_id.to_ascii_lowercase());
        let once = self.once("claw.tool.call", &asked.request_id, params, &ticket);
        let work = self.clone().run(asked, &ticket);
        Ok(ticket.later(once.run(work)))
    }

    /// Refuses a call that the session does not take. It is a call, and so it is recorded.
    fn refuse(&self, asked: CallParams, Fault { code, message, data, .. }: Fault) -> Answer {
        let wrong_time = code == INVALID_REQUEST;
        let kind = if wrong_time { ErrorKind::InvalidRequest } else { ErrorKind::InvalidArguments };
        let refused = Some(CallError { data, ..CallError::new(kind, message) });
        let Inner { principal, calls, .. } = &**self.inner();
        let context = CallContext { refused, ..CallContext::default() };
        let call = ToolCall::new(principal.clone(), asked.name, asked.arguments);
        let call = guarded(calls.call(ToolCall { context, ..call }));
        Answer::Later(Box::pin(async move {
            (call.await.map(content::result).map_err(Fault::from), None)
        }))
    }

    fn run(
        self,
        asked: CallParams,
        Ticket { agreed, .. }: &Ticket,
    ) -> impl Future<Output = Result<Value, CallError>> + Send + use<C> {
        let call = asked.call(&self, agreed);
        async move {
            let outcome = self.inner().calls.call(call).await;
            self.watch(&outcome);
            outcome.map(content::result)
        }
    }

    /// A call that could not be recorded says that the host does not work.
    fn watch(&self, outcome: &Result<ToolReply, CallError>) {
        let unrecorded =
            |error: &CallError| error.data.get("stage").and_then(Value::as_str) == Some("audit");
        self.works(!outcome.as_ref().is_err_and(unrecorded));
    }

    /// Returns what has a request carried out once, however often it is sent.
    pub(super) fn once(
        &self,
        method: &'static str,
        request_id: &str,
        params: Params<'_>,
        ticket: &Ticket,
    ) -> Once {
        let principal = self.inner().principal.0.clone();
        // Hexadecimal digits are the same id in either case.
        let request_id = request_id.to_ascii_lowercase();
        let mut said = Value::Object(params.members().clone());
        if let Some(own) = said.pointer_mut("/context/request_id") {
            *own = request_id.as_str().into();
        }
        let said = Value::Array(vec![said, ticket.agreed.narrowing.as_str().into()]);
        let key = Key { principal, method, request_id };
        let replay = self.inner().calls.services().replay.cloned();
        Once { replay, key, said, ended: ticket.ended.clone() }
    }
}

/// A request that is carried out once.
pub(super) struct Once {
    replay: Option<Replay>,
    key: Key,
    /// The whole parameters and what narrows them, which tell one request from another.
    said: Value,
    /// Cancelled when the session no longer wants it.
    ended: CancellationToken,
}

impl Once {
    /// Runs `work` unless the request was answered before.
    pub(super) async fn run(
        self,
        work: impl Future<Output = Result<Value, CallError>> + Send + 'static,
    ) -> Result<Value, CallError> {
        match self.replay {
            None => until(&self.ended, work).await,
            Some(replay) => {
                // Of up to megabytes, so not while lines are read.
                let digest = digest::of_json(&self.said);
                replay.once(self.key, &digest, self.ended, work).await
            }
        }
    }
}
