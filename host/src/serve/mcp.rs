//! MCP, both eras: `initialize` up to 2025-11-25, and the stateless 2026-07-28.
//!
//! One [`McpServer`] belongs to one principal, so whatever arrives through it is that principal's.
//! Deliberately absent: requests of our own to clients beyond those of `elicit` and `questions`, and any
//! state of a session beyond "tell me when the lists change".

use std::sync::Arc;

use clawhost_core::digest;
use clawhost_core::exposed::List;
use clawhost_core::reply::json_bytes;
use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientJsonRpcMessage, ClientRequest,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, ErrorCode,
    GetPromptRequestParams, GetPromptResponse, Implementation, JsonRpcMessage, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::calls::{Calls, guarded};
use super::convert::{self, Era};
use super::elicit;
use super::progress::{Reports, Told, is_token, progress_channel, with_progress};
use super::questions;
use super::waiting::{Client, OpenCall, Turn};
use crate::approvals::WaitingSink;
use crate::dialogue::Dialogue;
use crate::gate::CallContext;
use crate::host::{Principal, ProgressSink, ToolCall};
use crate::replay::stopped;
use crate::telemetry::{TRACEPARENT, TraceParent};

/// What a request comes with.
pub(super) type Context = RequestContext<RoleServer>;
/// What a request comes to, where it is not an error of the protocol.
pub(super) type Outcome<T> = Result<T, ErrorData>;
/// Which part of a list is asked for.
pub(super) type Page = Option<PaginatedRequestParams>;

/// What a client is told to do with this server.
const INSTRUCTIONS: &str = "Tools that run in WebAssembly sandboxes. Each call starts fresh and \
    can reach only what its sandbox profile grants. A refused call is a result with isError and \
    the reason; repeating it unchanged will not help.";

/// MCP methods this server knows; one of them that cannot be read has wrong parameters.
const KNOWN_METHODS: [&str; 10] = [
    "completion/complete", "prompts/get", "prompts/list", "resources/list", "resources/read",
    "resources/templates/list", "server/discover", "subscriptions/listen", "tools/call",
    "tools/list",
];
/// Those that only the older revisions have.
const OLDER_METHODS: [&str; 2] = ["initialize", "ping"];

/// Says whether a request is one that MCP has in no revision.
pub(super) fn is_unknown(method: &str, message: &ClientJsonRpcMessage) -> bool {
    let is_custom = matches!(message, JsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::CustomRequest(_)));
    is_custom && !KNOWN_METHODS.contains(&method) && !OLDER_METHODS.contains(&method)
}

/// The tools of one host, for one principal, as an MCP server.
#[derive(Debug)]
pub(crate) struct McpServer<C> {
    pub(super) calls: C,
    pub(super) principal: Principal,
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

    /// As [`McpServer::turn`], as long as there is somebody to be answered and the host serves.
    pub(super) async fn see(
        &self,
        request: CallToolRequestParams,
        context: &Context,
    ) -> Outcome<Turn> {
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(cancelled()),
            // Nobody is there to be answered: the answer is for when rmcp no longer waits for it.
            () = session_ended(context) => {
                context.ct.cancelled().await;
                Err(cancelled())
            }
            () = self.stopped.cancelled() => Ok(Turn::Done(Err(stopped()))),
            turn = self.turn(request, context) => turn,
        }
    }

    /// Begins a call or takes one up again, and sees how far it gets.
    async fn turn(&self, mut request: CallToolRequestParams, context: &Context) -> Outcome<Turn> {
        let approvals = self.calls.services().approvals;
        let principal = self.principal.0.as_str();
        let capabilities = context.client_capabilities();
        let told = |token| Arc::new(Told::new(context.peer.clone(), token));
        let client = Client {
            approvals,
            principal,
            peer: &context.peer,
            told: context.meta.get_progress_token().filter(is_token).map(told),
            is_older: era(context) == Era::Legacy,
            elicits: approvals.reach().may_elicit(principal)
                && elicit::is_declared(capabilities.as_ref()),
        };
        if client.is_older {
            let dialogue = questions::dialogue(capabilities.as_ref());
            let underway = self.start(request, context, dialogue, &client);
            return Ok(Turn::Done(client.see_through(underway).await));
        }
        // By which a call that waits is found again.
        let digest = digest::of_json(&json!([request.name, request.arguments]));
        let state = request.request_state.take();
        let servers = state.as_deref().and_then(questions::servers_state);
        if let (Some(ticket), None) = (state, &servers) {
            let turn = client.resume((&ticket, &digest), request.input_responses.as_ref()).await;
            return questions::told(turn.ok_or_else(stale_state)?, false, capabilities.as_ref());
        }
        let responses = request.input_responses.take();
        let responses = responses.and_then(|responses| serde_json::to_value(responses).ok());
        let dialogue = questions::dialogue(capabilities.as_ref());
        let dialogue = Dialogue { responses, state: servers, comes_again: true, ..dialogue };
        let is_answer = dialogue.is_answer();
        let underway = self.start(request, context, dialogue, &client);
        let turn = client.begin(underway, &digest).await;
        questions::told(turn, is_answer, capabilities.as_ref())
    }

    /// Returns a call that has not begun, with its reports where the client asked for them.
    fn start(
        &self,
        request: CallToolRequestParams,
        context: &Context,
        dialogue: Dialogue,
        client: &Client<'_>,
    ) -> OpenCall {
        // While the call runs, its own user can be asked about it.
        let reach = client.approvals.reach();
        let reachable = client.elicits.then(|| reach.open_for(client.principal));
        let (waiting, questions) = watch::channel(Vec::new());
        let answered = CancellationToken::new();
        let (sink, updates) = client.told.is_some().then(progress_channel).unzip();
        let asks = dialogue.asks.as_ref().map(|asks| asks.now());
        let mut call = self.tool_call(request, dialogue, sink, waiting);
        call.context.trace = trace(context);
        let bytes = json_bytes(&call.arguments);
        let call = guarded(self.calls.call(call));
        let told = client.told.clone();
        let reports = updates.zip(told).map(|(updates, told)| {
            let silenced = answered.clone();
            (updates, Reports { told, silenced })
        });
        let call = Box::pin(async move {
            let _reachable = reachable;
            match reports {
                Some((updates, reports)) => with_progress(call, updates, &reports).await,
                None => call.await,
            }
        });
        OpenCall { call, questions, asks, answered, bytes }
    }

    fn tool_call(
        &self,
        request: CallToolRequestParams,
        dialogue: Dialogue,
        progress: Option<ProgressSink>,
        waiting: WaitingSink,
    ) -> ToolCall {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let call = ToolCall::new(self.principal.clone(), request.name, arguments);
        let (dialogue, waiting) = (Some(Arc::new(dialogue)), Some(waiting));
        let context = CallContext { dialogue, waiting, ..CallContext::default() };
        ToolCall { progress, context, ..call }
    }
}

impl<C: Calls> ServerHandler for McpServer<C> {
    fn get_info(&self) -> ServerConfig {
        let tools = ServerCapabilities::builder().enable_tools().enable_tool_list_changed();
        let mut capabilities = tools.build();
        self.declare(&mut capabilities);
        let server = Implementation::new("clawhost", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(server).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(&self, _: Page, context: Context) -> Outcome<ListToolsResult> {
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
        context: Context,
    ) -> Outcome<CallToolResponse> {
        Ok(match self.see(request, &context).await? {
            Turn::Done(Ok(reply)) => convert::reply(reply, era(&context)).into(),
            Turn::Done(Err(error)) => convert::failure(error)?.into(),
            Turn::Waits(result) => result.into(),
        })
    }

    async fn list_prompts(&self, request: Page, _: Context) -> Outcome<ListPromptsResult> {
        let (items, next_cursor) = self.page(List::Prompts, request)?;
        Ok(ListPromptsResult { next_cursor, ..ListPromptsResult::with_all_items(items) })
    }

    async fn list_resources(&self, request: Page, _: Context) -> Outcome<ListResourcesResult> {
        let (items, next_cursor) = self.page(List::Resources, request)?;
        Ok(ListResourcesResult { next_cursor, ..ListResourcesResult::with_all_items(items) })
    }

    async fn list_resource_templates(
        &self,
        request: Page,
        _: Context,
    ) -> Outcome<ListResourceTemplatesResult> {
        let (items, next_cursor) = self.page(List::Templates, request)?;
        Ok(ListResourceTemplatesResult {
            next_cursor,
            ..ListResourceTemplatesResult::with_all_items(items)
        })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: Context,
    ) -> Outcome<ReadResourceResponse> {
        self.read(request, context).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: Context,
    ) -> Outcome<GetPromptResponse> {
        self.prompt(request, context).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: Context,
    ) -> Outcome<CompleteResult> {
        self.completion(request, context).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: Context,
    ) -> Outcome<CustomResult> {
        let method = request.method.as_str();
        let is_older = era(&context) == Era::Legacy && OLDER_METHODS.contains(&method);
        if is_older || KNOWN_METHODS.contains(&method) {
            let text = format!("the parameters of {} do not fit", request.method);
            return Err(ErrorData::invalid_params(text, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "unknown method", None))
    }

    fn accepted_subscription_filter(
        &self,
        _requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let all = SubscriptionFilter::builder().tools_list_changed();
        Some(all.prompts_list_changed().resources_list_changed().build())
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
            let (told, sink) = (context.accepted(), context.sink());
            let is_told = |told: Option<bool>| told == Some(true);
            // Which of the lists has changed is not looked at: they are cheap to ask for.
            let ended = news.is_err()
                || (is_told(told.tools_list_changed)
                    && sink.notify_tool_list_changed().await.is_err())
                || (is_told(told.prompts_list_changed)
                    && sink.notify_prompt_list_changed().await.is_err())
                || (is_told(told.resources_list_changed)
                    && sink.notify_resource_list_changed().await.is_err());
            if ended {
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
        let mut capabilities = ServerCapabilities::default();
        self.declare(&mut capabilities);
        let watcher = tokio::spawn(async move {
            let peer = &context.peer;
            while changes.changed().await.is_ok() {
                let ended = peer.notify_tool_list_changed().await.is_err()
                    || (capabilities.prompts.is_some()
                        && peer.notify_prompt_list_changed().await.is_err())
                    || (capabilities.resources.is_some()
                        && peer.notify_resource_list_changed().await.is_err());
                if ended {
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

/// Returns the trace that a request says it is part of, in its `_meta` or else in its header.
fn trace(context: &Context) -> Option<TraceParent> {
    let parts = context.extensions.get::<http::request::Parts>();
    let said = context.meta.get(TRACEPARENT).and_then(Value::as_str);
    said.map_or_else(|| TraceParent::of(&parts?.headers), TraceParent::parse)
}

/// Ends with the session of a request, at once: by itself rmcp gives what runs some seconds more,
/// in which a person could still let a call run that nobody waits for. Never without a session.
async fn session_ended(context: &Context) {
    let parts = context.extensions.get::<http::request::Parts>();
    match parts.and_then(|parts| parts.extensions.get::<SessionEnd>()) {
        Some(SessionEnd(end)) => end.cancelled().await,
        None => std::future::pending().await,
    }
}

fn era(context: &Context) -> Era {
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
