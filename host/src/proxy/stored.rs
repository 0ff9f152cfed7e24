//! What providers keep: for the agent who had it made, and at the provider who made it.
//!
//! All agents of a host come to a provider with one key, so it is this host that tells them apart. What a request
//! may name, and where an answer says that something was made, [`mediate::named`] knows. Deliberately absent: a
//! copy of what is kept, and whatever is made elsewhere than in answers: files, stores, conversations.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use clawhost_core::mediate::{self, Responses};
use http::StatusCode;
use http::request::Parts;
use serde_json::Value;

use super::refused::Refused;
use super::{Completed, ModelRequest, PATHS, Proxy};
use crate::upstream::provider::{Api, Forward, StoredCall};

impl Proxy {
    /// Passes on what is asked about a response: to see it or what it was made of, to stop or to delete it.
    pub(super) async fn stored(&self, agent: &str, parts: &Parts, about: &str) -> Completed {
        let (id, part) = about.split_once('/').unwrap_or((about, ""));
        match (parts.method.as_str(), part) {
            ("GET", "" | "input_items") | ("DELETE", "") | ("POST", "cancel") => {}
            _ => return Err(Refused::new(StatusCode::NOT_FOUND, PATHS)),
        }
        let makers = self.makers(agent, vec![id.to_owned()]).await?;
        let provider = makers.into_iter().flatten().next();
        let none = || Refused::new(StatusCode::NOT_FOUND, "this agent has no response of that id");
        let asked = asked(agent, provider.ok_or_else(none)?, parts)?;
        self.0.host.providers().admit(agent).await?;
        let record = self.record(&asked, 0);
        self.pass(asked, record).await
    }

    /// Has a request that names what a provider keeps asked of that one alone, and refuses one that names what
    /// may be anybody's.
    pub(super) async fn check_named(&self, asked: &mut ModelRequest) -> Result<(), Refused> {
        let bad = |why: String| Refused::new(StatusCode::BAD_REQUEST, why);
        let named = mediate::named(&asked.forward.body).into_iter().map(|named| (named.id, named));
        let named: BTreeMap<_, _> = named.collect();
        if named.is_empty() {
            return Ok(());
        }
        let ids = named.keys().map(|id| (*id).to_owned()).collect();
        let makers = self.makers(&asked.agent, ids).await?;
        if let Some((named, _)) = named.values().zip(&makers).find(|(_, makers)| makers.is_empty())
        {
            let (key, instead) = (named.key, named.instead);
            return Err(bad(format!(
                "`{key}` names what its provider keeps, and nothing of that name was made for this agent: {instead}"
            )));
        }
        let of_all = |maker: &&String| makers.iter().all(|makers| makers.contains(maker));
        for maker in makers.iter().take(1).flatten().filter(of_all) {
            if self.0.host.providers().may_ask(asked.forward.model(), maker)? {
                asked.forward.keeper = Some(maker.clone());
                return Ok(());
            }
        }
        let why = "what is named is kept by another provider than those that `model` means";
        Err(bad(why.to_owned()))
    }

    /// Has the words of a sound sent in its place where it was not made for this agent, and they came with it.
    pub(super) async fn write_out(&self, asked: &mut ModelRequest) -> Result<(), Refused> {
        let spoken: BTreeSet<_> = mediate::spoken(&asked.forward.body).map(str::to_owned).collect();
        let ids = Vec::from_iter(spoken.iter().cloned());
        if ids.is_empty() {
            return Ok(());
        }
        let all = spoken.into_iter().zip(self.makers(&asked.agent, ids).await?);
        let others: BTreeSet<_> =
            all.filter(|(_, makers)| makers.is_empty()).map(|(id, _)| id).collect();
        if !others.is_empty() {
            mediate::write_out(asked.forward.body.to_mut(), &others);
            asked.forward.is_changed = true;
        }
        Ok(())
    }

    /// Takes note of what an answer says was made.
    pub(super) async fn made_of(&self, asked: &ModelRequest, provider: &str, answer: &Value) {
        let ids = mediate::made(answer, asked.is_kept()).into_iter().map(str::to_owned).collect();
        self.made(asked, provider, ids).await;
    }

    /// Takes note of what was made, for whom, and who keeps it.
    pub(super) async fn made(&self, asked: &ModelRequest, provider: &str, ids: Vec<String>) {
        if ids.is_empty() {
            return;
        }
        let continuity = self.0.continuity.clone();
        let (agent, provider) = (asked.agent.clone(), provider.to_owned());
        // It is kept, also where the client is gone by then.
        let kept = tokio::spawn(async move {
            if let Err(error) = continuity.made(&agent, ids, &provider).await {
                tracing::warn!("nobody will find what {provider} made again: {error}");
            }
        });
        drop(kept.await);
    }

    /// Returns the providers that made each of these for `agent`.
    async fn makers(&self, agent: &str, ids: Vec<String>) -> Result<Vec<Vec<String>>, Refused> {
        self.0.continuity.makers(agent, ids).await.map_err(|error| {
            tracing::warn!("what was made for an agent cannot be read: {error}");
            Refused::internal()
        })
    }
}

impl ModelRequest {
    /// Says whether the provider keeps the answer itself, or what tells its prompt from others, by the answer's name.
    pub(super) fn is_kept(&self) -> bool {
        match self.forward.api {
            Api::Responses => self.forward.body.get("store") != Some(&Value::Bool(false)),
            Api::Messages => self.forward.body.get("diagnostics").is_some_and(Value::is_object),
            Api::Stored(_) => true,
            Api::Chat | Api::Count => false,
        }
    }
}

fn asked(agent: &str, provider: String, parts: &Parts) -> Result<ModelRequest, Refused> {
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let forward = Forward {
        api: Api::Stored(StoredCall { method: parts.method.clone(), path, query }),
        body: Cow::Owned(Value::Null),
        bytes: Bytes::new(),
        is_changed: false,
        headers: super::passed(&parts.headers),
        keeper: Some(provider),
    };
    let (agent, conversation, dialect) = (agent.to_owned(), String::new(), &Responses);
    Ok(ModelRequest { agent, id: super::turn_id()?, dialect, conversation, forward, trace: None })
}
