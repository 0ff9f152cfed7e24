//! `claw:host/memory`, `models` and `channels`: what the host has for the agent that calls, and
//! passes on from it. Each as far as the profile grants it, looked at again in each call.

use std::collections::BTreeSet;
use std::sync::Arc;

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::grants::AgentGrants;
use clawhost_core::limits::CHANNEL_MESSAGES_PER_CALL_MAX;

use super::Backends;
use super::bindings::claw::host::channels::{self, ChannelError};
use super::bindings::claw::host::memory::{self, MemoryError};
use super::bindings::claw::host::models::{self, ModelsError};
use super::state::CallState;
use crate::channels::{Channels, Message, Unsent};
use crate::memory::{Keys, OwnKeys, Space};
use crate::upstream::provider::{Caller, Cost, Providers};

/// The key of the model that an agent prefers.
const PREFERRED_MODEL: &str = "model";

/// What one call may use of the host's own, and for whom.
#[derive(Debug)]
pub(super) struct AgentCtx {
    /// Nobody, until it is said who calls.
    agent: String,
    tool: Arc<str>,
    grants: AgentGrants,
    /// Nothing where the profile does not grant them.
    providers: Option<Providers>,
    keys: Option<Keys>,
    channels: Option<Channels>,
    sent: u32,
    pub(super) work: u64,
    denied: BTreeSet<&'static str>,
}

impl AgentCtx {
    /// Returns what `grants` let `tool` use of `backends`, beside the providers it may ask.
    pub(super) fn new(
        tool: Arc<str>,
        grants: &AgentGrants,
        providers: Option<Providers>,
        backends: &Backends,
    ) -> Self {
        // What is preferred of the providers is kept there too.
        let keys = backends.keys.as_ref().filter(|_| grants.memory || providers.is_some());
        let channels = Some(&backends.channels).filter(|_| !grants.channels.is_empty());
        let (keys, channels) = (keys.cloned(), channels.cloned());
        let (agent, denied) = (String::new(), BTreeSet::new());
        let grants = grants.clone();
        Self { agent, tool, grants, providers, keys, channels, sent: 0, work: 0, denied }
    }

    pub(super) fn set_agent(&mut self, agent: &str) {
        agent.clone_into(&mut self.agent);
    }

    /// Returns who calls.
    pub(super) fn name(&self) -> &str {
        &self.agent
    }

    /// Returns who calls, and the tool.
    pub(super) fn caller(&self) -> Caller {
        Caller::new(&self.agent, &self.tool)
    }

    /// Returns what the call tried and was refused.
    pub(super) fn violations(&self) -> impl Iterator<Item = String> {
        self.denied.iter().map(|what| format!("{what}: the profile does not grant it"))
    }

    /// Returns the model that the agent prefers, if the manifest still has it.
    pub(super) async fn preferred(&self) -> Result<Option<String>, CallError> {
        let (Some(keys), Some(providers)) = (&self.keys, &self.providers) else {
            return Ok(None);
        };
        let preferred = keys.of(&self.agent, Space::Preferences).get(PREFERRED_MODEL).await?;
        Ok(preferred.filter(|name| providers.check_model(name).is_ok()))
    }

    fn denied(&mut self, what: &'static str) -> String {
        self.denied.insert(what);
        "the profile does not grant it".to_owned()
    }

    fn own_keys(&mut self) -> Result<OwnKeys, MemoryError> {
        let keys = self.keys.as_ref().filter(|_| self.grants.memory);
        let own = keys.map(|keys| keys.of(&self.agent, Space::Tools));
        own.ok_or_else(|| MemoryError::Denied(self.denied("memory")))
    }

    fn models(&mut self) -> Result<Providers, ModelsError> {
        self.providers.clone().ok_or_else(|| ModelsError::Denied(self.denied("models")))
    }

    async fn prefer(&mut self, name: Option<&str>) -> Result<(), ModelsError> {
        let providers = self.models()?;
        let no_store = || ModelsError::Failed("this host keeps nothing".to_owned());
        let own = self.keys.as_ref().ok_or_else(no_store)?;
        let own = own.of(&self.agent, Space::Preferences);
        match name {
            None => own.delete(PREFERRED_MODEL).await.map(drop)?,
            Some(name) => {
                let known = providers.check_model(name);
                known.map_err(|error| ModelsError::Unknown(error.message))?;
                own.set(PREFERRED_MODEL, name).await?;
            }
        }
        Ok(())
    }

    fn send(&mut self, channel: &str, chat_id: &str, content: &str) -> Result<(), ChannelError> {
        let Some(channels) = &self.channels else {
            return Err(ChannelError::Denied(self.denied("channels")));
        };
        if self.sent >= CHANNEL_MESSAGES_PER_CALL_MAX {
            let text = format!("one call sends at most {CHANNEL_MESSAGES_PER_CALL_MAX} messages");
            return Err(ChannelError::OverLimit(text));
        }
        self.sent += 1;
        self.work += content.len() as u64;
        let message = Message { channel, chat_id, content, agent: &self.agent, tool: &self.tool };
        channels.send(&self.grants.channels, message).map_err(|unsent| match unsent {
            Unsent::Unknown(why) => ChannelError::Unknown(why),
            Unsent::OverLimit(why) => ChannelError::OverLimit(why),
        })
    }
}

impl From<CallError> for MemoryError {
    fn from(error: CallError) -> Self {
        match error.kind {
            ErrorKind::InvalidArguments => Self::InvalidKey(error.message),
            ErrorKind::MemoryQuery => Self::OverQuota(error.message),
            _ => Self::Failed(error.message),
        }
    }
}

impl From<CallError> for ModelsError {
    fn from(error: CallError) -> Self {
        Self::Failed(error.message)
    }
}

impl memory::Host for CallState {
    async fn get(&mut self, key: String) -> Result<Option<String>, MemoryError> {
        let get = async |state: &mut Self| {
            let value = state.agent.own_keys()?.get(&key).await?;
            state.agent.work += value.as_ref().map_or(0, |value| value.len() as u64);
            Ok(value)
        };
        self.taped("memory.get", MemoryError::Failed, get).await
    }

    async fn set(&mut self, key: String, value: String) -> Result<(), MemoryError> {
        let set = async |state: &mut Self| {
            state.agent.work += value.len() as u64;
            Ok(state.agent.own_keys()?.set(&key, &value).await?)
        };
        self.taped("memory.set", MemoryError::Failed, set).await
    }

    async fn delete(&mut self, key: String) -> Result<bool, MemoryError> {
        let delete = async |state: &mut Self| Ok(state.agent.own_keys()?.delete(&key).await?);
        self.taped("memory.delete", MemoryError::Failed, delete).await
    }

    async fn list(
        &mut self,
        prefix: String,
        after: Option<String>,
        limit: u32,
    ) -> Result<memory::Page, MemoryError> {
        let list = async |state: &mut Self| {
            let own = state.agent.own_keys()?;
            let (entries, more) = own.list(&prefix, after.as_deref(), limit).await?;
            let entries = entries.into_iter().map(|entry| memory::Entry {
                key: entry.key,
                bytes: entry.bytes,
                set_at_ms: entry.set_at_ms,
            });
            Ok(memory::Page { entries: entries.collect(), more })
        };
        self.taped("memory.list", MemoryError::Failed, list).await
    }
}

impl models::Host for CallState {
    async fn list(&mut self) -> Result<Vec<models::Model>, ModelsError> {
        let list = async |state: &mut Self| {
            let providers = state.agent.models()?;
            let model = |plan: &clawhost_core::manifest::ProviderPlan| models::Model {
                provider: plan.name.clone(),
                model: plan.model.clone(),
                unserved: plan.unserved.clone(),
                tokens_per_day: plan.limits.tokens_per_day,
                requests_per_minute: plan.limits.requests_per_minute,
                context_window: plan.limits.max_context_window,
            };
            Ok(providers.plans().iter().map(model).collect())
        };
        self.taped("models.list", ModelsError::Failed, list).await
    }

    async fn preferred(&mut self) -> Result<Option<String>, ModelsError> {
        let preferred = async |state: &mut Self| {
            state.agent.models()?;
            Ok(state.agent.preferred().await?)
        };
        self.taped("models.preferred", ModelsError::Failed, preferred).await
    }

    async fn prefer(&mut self, name: Option<String>) -> Result<(), ModelsError> {
        let prefer = async |state: &mut Self| state.agent.prefer(name.as_deref()).await;
        self.taped("models.prefer", ModelsError::Failed, prefer).await
    }

    async fn costs(&mut self, days: u32) -> Result<Vec<models::Cost>, ModelsError> {
        let costs = async |state: &mut Self| {
            let providers = state.agent.models()?;
            let own = Some(state.agent.agent.clone());
            let costs = providers.costs(days, own.filter(|_| !state.agent.grants.all_costs)).await;
            let costs = costs.map_err(|error| error.into_call_error(ErrorKind::Internal))?;
            Ok(costs.into_iter().map(cost).collect())
        };
        self.taped("models.costs", ModelsError::Failed, costs).await
    }
}

impl channels::Host for CallState {
    async fn send(
        &mut self,
        channel: String,
        chat_id: String,
        content: String,
    ) -> Result<(), ChannelError> {
        let send = async |state: &mut Self| state.agent.send(&channel, &chat_id, &content);
        self.taped("channels.send", ChannelError::Unknown, send).await
    }
}

fn cost(cost: Cost) -> models::Cost {
    let Cost { caller, provider, requests, used, nano_usd } = cost;
    models::Cost {
        agent: caller.agent,
        tool: caller.tool,
        provider,
        requests,
        prompt_tokens: used.prompt_tokens,
        completion_tokens: used.completion_tokens,
        nano_usd,
    }
}
