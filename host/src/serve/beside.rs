//! What MCP servers have beside tools, for clients: lists in pages, and the use of one as a call of
//! the tool that stands for it, so that the same gate, filter and record hold.
//!
//! A refusal is an error of the protocol here, as these results have no way to say one. Deliberately
//! absent: subscriptions to single resources, and a resource or prompt in part: one that is longer
//! than a reply may be is refused.

use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::exposed::{ExposedKind, List, UsableLists};
use clawhost_core::json::put;
use clawhost_core::limits::{EXPOSED_NAME_BYTES_MAX, REPLY_BYTES_MAX};
use clawhost_core::reply::ToolReply;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CompleteRequestParams, CompleteResult, ErrorCode,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, InputRequiredResult,
    PromptsCapability, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    Reference, ResourcesCapability, ServerCapabilities,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::calls::Calls;
use super::convert;
use super::mcp::{Context, McpServer, Outcome, Page};
use super::waiting::Turn;
use crate::upstream::mcp::SERVER_ERROR;

/// What a use comes to.
enum Used {
    Reply(ToolReply),
    /// The client has to come back.
    Waits(InputRequiredResult),
}

impl<C: Calls> McpServer<C> {
    /// Says which kinds the runtime file has served, whether their servers are there yet or not.
    pub(super) fn declare(&self, capabilities: &mut ServerCapabilities) {
        let manifest = self.calls.services().manifest;
        let exposes =
            |kind| manifest.mcp_servers.iter().any(|one| one.expose.kinds.contains(&kind));
        capabilities.completions = exposes(ExposedKind::Completions).then(Default::default);
        capabilities.prompts = exposes(ExposedKind::Prompts).then(|| {
            let mut prompts = PromptsCapability::default();
            prompts.list_changed = Some(true);
            prompts
        });
        capabilities.resources = exposes(ExposedKind::Resources).then(|| {
            let mut resources = ResourcesCapability::default();
            resources.list_changed = Some(true);
            resources
        });
    }

    pub(super) async fn read(
        &self,
        params: ReadResourceRequestParams,
        context: Context,
    ) -> Outcome<ReadResourceResponse> {
        let tool = self.offered(|offers| offers.resource(&params.uri).map(str::to_owned));
        let unknown = || {
            // A longer one is nobody's.
            let uri = self.calls.services().secrets.short(&params.uri, EXPOSED_NAME_BYTES_MAX);
            ErrorData::resource_not_found("there is no such resource", Some(json!({"uri": uri})))
        };
        let mut call = call(tool.ok_or_else(unknown)?, &json!({"uri": params.uri}));
        (call.input_responses, call.request_state) = (params.input_responses, params.request_state);
        Ok(match self.used(call, &context).await? {
            Used::Reply(reply) => {
                let contents = convert::resources(reply);
                if contents.is_empty() {
                    return Err(unknown());
                }
                ReadResourceResult::new(contents).into()
            }
            Used::Waits(result) => result.into(),
        })
    }

    pub(super) async fn prompt(
        &self,
        params: GetPromptRequestParams,
        context: Context,
    ) -> Outcome<GetPromptResponse> {
        let tool = self.offered(|offers| offers.prompt(&params.name).map(str::to_owned));
        let unknown = || ErrorData::invalid_params("there is no such prompt", None);
        let arguments = params.arguments.unwrap_or_default();
        let mut call =
            call(tool.ok_or_else(unknown)?, &json!({"name": params.name, "arguments": arguments}));
        (call.input_responses, call.request_state) = (params.input_responses, params.request_state);
        Ok(match self.used(call, &context).await? {
            Used::Reply(reply) => {
                let description =
                    reply.structured.as_ref().and_then(|beside| beside.get("description"));
                let description = description.and_then(Value::as_str).map(str::to_owned);
                let mut result = GetPromptResult::new(convert::messages(reply));
                result.description = description;
                result.into()
            }
            Used::Waits(result) => result.into(),
        })
    }

    pub(super) async fn completion(
        &self,
        params: CompleteRequestParams,
        context: Context,
    ) -> Outcome<CompleteResult> {
        let tool = self.offered(|offers| {
            let tool = match &params.r#ref {
                Reference::Prompt(prompt) => offers.completion(List::Prompts, &prompt.name),
                Reference::Resource(resource) => offers
                    .completion(List::Templates, &resource.uri)
                    .or_else(|| offers.completion(List::Resources, &resource.uri)),
                _ => None,
            };
            tool.map(str::to_owned)
        });
        // What nobody completes has no completions.
        let Some(tool) = tool else { return Ok(CompleteResult::default()) };
        let mut asked = json!({"ref": params.r#ref, "argument": params.argument});
        put(&mut asked, "context", params.context.as_ref().map(|context| json!(context)));
        match self.used(call(tool, &asked), &context).await? {
            Used::Reply(reply) => {
                let completion = serde_json::from_value(reply.structured.unwrap_or_default());
                let wrong =
                    |_| ErrorData::internal_error("the server's completions cannot be read", None);
                Ok(CompleteResult::new(completion.map_err(wrong)?))
            }
            Used::Waits(_) => {
                let text = "a completion does not wait for a person";
                Err(convert::protocol_error(CallError::new(ErrorKind::Policy, text)))
            }
        }
    }

    /// Makes the call and returns its reply, where it is a whole one.
    async fn used(&self, call: CallToolRequestParams, context: &Context) -> Outcome<Used> {
        let reply = match self.see(call, context).await? {
            Turn::Done(outcome) => outcome.map_err(convert::protocol_error)?,
            Turn::Waits(result) => return Ok(Used::Waits(result)),
        };
        let error = match reply.cut_from_bytes {
            Some(bytes) => {
                let text = format!("it is longer than a reply may be: {bytes} bytes of JSON");
                CallError::new(ErrorKind::Sandbox, text).with_limit(Limit::ReplyBytes)
            }
            None if reply.is_error => return Err(failed(&reply)),
            None => return Ok(Used::Reply(reply)),
        };
        Err(convert::protocol_error(error))
    }

    /// Asks what this client may use, which is what it may call.
    fn offered<T>(&self, ask: impl FnOnce(&UsableLists<'_>) -> T) -> T {
        let (catalog, tools) = (self.calls.catalog(), self.calls.list(&self.principal));
        let may_call = |name: &str| tools.iter().any(|tool| tool.definition.name == name);
        let offered = catalog.exposed.iter().filter(|served| may_call(&served.tool));
        ask(&UsableLists(offered.collect()))
    }

    /// Returns as much of a list as fits a reply, and where the rest begins.
    pub(super) fn page<T: DeserializeOwned>(
        &self,
        list: List,
        page: Page,
    ) -> Outcome<(Vec<T>, Option<String>)> {
        let cursor = page.and_then(|page| page.cursor);
        let start = cursor.map_or(Ok(0), |cursor| cursor.parse::<usize>());
        let start = start.map_err(|_| ErrorData::invalid_params("there is no such page", None))?;
        self.offered(|offers| {
            let items = offers.list(list);
            let mut bytes = 0;
            let fits = |item: &&&Value| {
                bytes += item.to_string().len() + 1;
                bytes <= REPLY_BYTES_MAX
            };
            let taken: Vec<_> = items.iter().skip(start).take_while(fits).collect();
            let end = start.saturating_add(taken.len());
            let read = |item: &&Value| serde_json::from_value((**item).clone()).ok();
            let next = (end < items.len()).then(|| end.to_string());
            Ok((taken.into_iter().filter_map(read).collect(), next))
        })
    }
}

fn call(tool: String, arguments: &Value) -> CallToolRequestParams {
    CallToolRequestParams::new(tool)
        .with_arguments(arguments.as_object().cloned().unwrap_or_default())
}

/// Returns the error that a server's own is: with its code where that says what is wrong with the request.
fn failed(reply: &ToolReply) -> ErrorData {
    let error = CallError::new(ErrorKind::Upstream, words(reply));
    let Some(said) = reply.meta.get(SERVER_ERROR) else { return convert::protocol_error(error) };
    let mut error = convert::protocol_error(error.with("server_error", said.clone()));
    let of_request = [ErrorCode::INVALID_PARAMS, ErrorCode::RESOURCE_NOT_FOUND];
    let code = said.get("code").and_then(Value::as_i64);
    let same = of_request.into_iter().find(|known| Some(known.0.into()) == code);
    error.code = same.unwrap_or(error.code);
    error
}

/// Returns what a failed reply says.
pub(super) fn words(reply: &ToolReply) -> String {
    reply.texts().collect::<Vec<_>>().join("\n")
}
