//! MCP, both eras: `initialize` up to 2025-11-25, and the stateless 2026-07-28.
//!
//! One [`McpServer`] belongs to one principal, so whatever arrives through it is that principal's.
//! Deliberately absent: requests of our own to clients beyond the one question of `elicit`,
//! prompts, resources, and any state of a session beyond "tell me when the tools change".

use clawhost_core::digest;
use clawhost_core::error::CallError;
use clawhost_core::limits::CALL_PROGRESS_QUEUE_MAX;
use clawhost_core::reply::ToolReply;
use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode,
    Implementation, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ProgressToken, ProtocolVersion, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::calls::{Calls, guarded};
use super::convert::{self, Era};
use super::elicit;
use super::progress::growing;
use super::waiting::{Client, Turn, Underway, WAITING_ENDS_AT};
use crate::approvals::{Reachable, WaitingSink};
use crate::gate::CallContext;
use crate::host::{Principal, ProgressSink, ToolCall};
use crate::replay::stopped;

/// What a client is told to do with this server.
const INSTRUCTIONS: &str = "Tools that run in WebAssembly sandboxes. Each call starts fresh and \
    can reach only what its sandbox profile grants. A refused call is a result with isError and \
    the reason; repeating it unchanged will not help.";

/// MCP methods this server knows; one of them that cannot be read has wrong parameters.
const KNOWN_METHODS: [&str; 6] =
    ["initialize", "ping", "server/discover", "subscriptions/listen", "tools/call", "tools/list"];

/// The tools of one host, for one principal, as an MCP server.
#[derive(Debug)]
pub(crate) struct McpServer<C> {
    calls: C,
    principal: Principal,
    /// The changes of the catalog since this server was made, before anybody could list its tools:
    /// who asks late still hears of what came before, once, as the list it has may be older.
    changes: watch::Receiver<u64>,
    /// Ends subscriptions, so that a connection can close while they are open.
    closing: CancellationToken,
    /// Ends calls, so that those that run too long for a stop are answered.
    stopped: CancellationToken,
    /// Tells a legacy peer about changed tools. Ends with this server.
    watcher: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl<C: Calls> McpServer<C> {
    /// Returns a server whose every call is `principal`'s. Cancelling `closing` ends its
    /// subscriptions, and cancelling `stopped` its calls.
    pub(crate) fn new(
        calls: C,
        principal: Principal,
        (closing, stopped): (CancellationToken, CancellationToken),
    ) -> Self {
        let mut changes = calls.catalog_version();
        changes.mark_unchanged();
        Self { calls, principal, changes, closing, stopped, watcher: Mutex::new(None) }
    }

    /// Begins a call or takes one up again, and sees how far it gets.
    async fn turn(
        &self,
        mut request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Turn, ErrorData> {
        let approvals = self.calls.services().approvals;
        let principal = self.principal.0.as_str();
        let client = Client {
            approvals,
            principal,
            digest: digest::of_json(&json!([request.name, request.arguments])),
            peer: &context.peer,
            token: context.meta.get_progress_token(),
            elicits: approvals.reach().may_elicit(principal)
                && elicit::is_declared(context.client_capabilities().as_ref()),
        };
        let ticket = request.request_state.take();
        if let (Era::Modern, Some(ticket)) = (era(context), ticket) {
            let turn = client.resume(&ticket, request.input_responses.as_ref()).await;
            return turn.ok_or_else(stale_state);
        }
        // While the call runs, its own user can be asked about it.
        let reachable = client.elicits.then(|| approvals.reach().open_for(principal));
        let underway = self.start(request, context, reachable);
        Ok(match era(context) {
            Era::Legacy => Turn::Done(client.see_through(underway, client.elicits).await),
            Era::Modern => client.begin(underway).await,
        })
    }

    /// Returns a call that has not begun, with its reports where the client asked for them.
    fn start(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        reachable: Option<Reachable>,
    ) -> Underway {
        let (waiting, question) = watch::channel(None);
        let answered = CancellationToken::new();
        let token = context.meta.get_progress_token();
        let (sink, updates) = token.is_some().then(progress_channel).unzip();
        let call = guarded(self.calls.call(self.tool_call(request, sink, waiting)));
        let (peer, silenced) = (context.peer.clone(), answered.clone());
        let asked = question.clone();
        let call = Box::pin(async move {
            let _reachable = reachable;
            match (updates, token) {
                (Some(updates), Some(token)) => {
                    let reports = Reports { peer, token, question: asked, silenced };
                    with_progress(call, updates, &reports).await
                }
                _ => call.await,
            }
        });
        Underway { call, question, answered }
    }

    fn tool_call(
        &self,
        request: CallToolRequestParams,
        progress: Option<ProgressSink>,
        waiting: WaitingSink,
    ) -> ToolCall {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let call = ToolCall::new(self.principal.clone(), request.name, arguments);
        let context = CallContext { waiting: Some(waiting), ..CallContext::default() };
        ToolCall { progress, context, ..call }
    }
}

impl<C: Calls> ServerHandler for McpServer<C> {
    fn get_info(&self) -> ServerConfig {
        let tools = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        let server = Implementation::new("clawhost", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(tools).with_server_info(server).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let era = era(&context);
        let tools = self.calls.list(&self.principal);
        let tools = tools.iter().map(|tool| convert::tool(&tool.definition, era)).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let catalog = self.calls.catalog();
        catalog.find(name).map(|tool| convert::tool(&tool.definition, Era::Modern))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let era = era(&context);
        let turn = tokio::select! {
            biased;
            () = context.ct.cancelled() => return Err(cancelled()),
            // Nobody is there to be answered: the answer is for when rmcp no longer waits for it.
            () = session_ended(&context) => {
                context.ct.cancelled().await;
                return Err(cancelled());
            }
            () = self.stopped.cancelled() => Turn::Done(Err(stopped())),
            turn = self.turn(request, &context) => turn?,
        };
        Ok(match turn {
            Turn::Done(Ok(reply)) => convert::reply(reply, era).into(),
            Turn::Done(Err(error)) => convert::failure(error)?.into(),
            Turn::Waits(result) => result.into(),
        })
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if KNOWN_METHODS.contains(&request.method.as_str()) {
            let text = format!("the parameters of {} do not fit", request.method);
            return Err(ErrorData::invalid_params(text, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "unknown method", None))
    }

    fn accepted_subscription_filter(
        &self,
        _requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.clone();
        loop {
            let news = tokio::select! {
                biased;
                () = context.cancelled() => return Ok(()),
                () = self.closing.cancelled() => return Ok(()),
                news = changes.changed() => news,
            };
            if news.is_err() || context.sink().notify_tool_list_changed().await.is_err() {
                return Ok(());
            }
        }
    }

    /// A peer of the older era has no subscriptions: it is told as soon as it is ready.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if context.peer.peer_info().is_none() {
            return;
        }
        let mut changes = self.changes.clone();
        let watcher = tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                if context.peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        });
        let mut slot = self.watcher.lock();
        *slot = Some(AbortOnDropHandle::new(watcher));
    }
}

/// The end of the session that an HTTP request names, which the transport puts into its extensions.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionEnd(pub(crate) CancellationToken);

/// Ends with the session of a request, at once: by itself rmcp gives what runs some seconds more,
/// in which a person could still let a call run that nobody waits for. Never without a session.
async fn session_ended(context: &RequestContext<RoleServer>) {
    let parts = context.extensions.get::<http::request::Parts>();
    match parts.and_then(|parts| parts.extensions.get::<SessionEnd>()) {
        Some(SessionEnd(end)) => end.cancelled().await,
        None => std::future::pending().await,
    }
}

fn era(context: &RequestContext<RoleServer>) -> Era {
    match context.protocol_version() {
        Some(version) if version >= ProtocolVersion::V_2026_07_28 => Era::Modern,
        _ => Era::Legacy,
    }
}

/// Never reaches the client: the answer to a cancelled request is dropped.
fn cancelled() -> ErrorData {
    ErrorData::internal_error("the request was cancelled", None)
}

/// A client cannot know what is wrong with a state it should pass on as it is.
fn stale_state() -> ErrorData {
    let text = "the request state is not good for this call: it was used, has expired, or belongs \
        to another";
    ErrorData::invalid_params(text, None)
}

/// One report of a running call: how far, of how much, and a word about it.
type Update = (f64, Option<f64>, Option<String>);

fn progress_channel() -> (ProgressSink, mpsc::Receiver<Update>) {
    let (sender, receiver) = mpsc::channel(CALL_PROGRESS_QUEUE_MAX);
    let sink = growing(move |done, total, text| {
        // A full queue means a client that reads slowly: it misses a report, the call goes on.
        let _ = sender.try_send((done, total, text));
    });
    (sink, receiver)
}

/// Where a call's reports go.
struct Reports {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    /// The call's last question: whether it waited.
    question: watch::Receiver<Option<String>>,
    /// Cancelled when the request is answered and nothing may be said about it any more.
    silenced: CancellationToken,
}

impl Reports {
    async fn tell(&self, (done, total, text): Update) {
        let waited = done <= WAITING_ENDS_AT && self.question.borrow().is_some();
        if waited || self.silenced.is_cancelled() {
            return;
        }
        let mut param = ProgressNotificationParam::new(self.token.clone(), done);
        param.total = total;
        param.message = text;
        // Reports are advice: the call goes on without.
        let _ = self.peer.notify_progress(param).await;
    }
}

/// Runs `call` and, beside it, passes its reports on. All of them go out before the result.
async fn with_progress(
    call: impl Future<Output = Result<ToolReply, CallError>>,
    mut updates: mpsc::Receiver<Update>,
    reports: &Reports,
) -> Result<ToolReply, CallError> {
    let finished = CancellationToken::new();
    let forward = async {
        // What was reported before the end is passed on behind it.
        while let Some(update) = match finished.run_until_cancelled(updates.recv()).await {
            Some(update) => update,
            None => updates.try_recv().ok(),
        } {
            reports.tell(update).await;
        }
    };
    let call = async {
        let outcome = call.await;
        finished.cancel();
        outcome
    };
    tokio::join!(call, forward).0
}
