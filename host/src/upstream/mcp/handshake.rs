//! How a connection begins: which revision of the protocol the server speaks.
//!
//! `server/discover` first. An answer to it is the newest revision; any error, and silence, is an
//! older one, which begins with `initialize` (MCP 2026-07-28, transports). An answer that comes
//! after all counts, where `initialize` is refused.

use std::pin::pin;
use std::time::{Duration, Instant};

use clawhost_core::limits::{
    BRIDGE_INSTRUCTIONS_BYTES_MAX, BRIDGE_PROBE_MS, BRIDGE_TOKEN_BYTES_MAX,
};
use clawhost_core::redact::Redactor;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::failure::{Failure, told};
use super::session::{Ask, Era, MODERN, ServerSession, Wire, client_info};

/// The revisions that begin with `initialize`, newest first.
const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// What a server says of itself. All of it is its own, and hostile until somebody says otherwise.
#[derive(Debug, Default)]
pub(super) struct Hello {
    pub(super) instructions: Option<String>,
    pub(super) server: String,
    pub(super) revision: &'static str,
}

impl ServerSession {
    /// Agrees with the server on a revision; asks for the newest one first where it `probes`.
    pub(super) async fn begin(&self, deadline: Instant, probes: bool) -> Result<Hello, Failure> {
        if !probes {
            return self.initialize(deadline).await;
        }
        let ask = Ask::new("server/discover", deadline);
        let mut discover = pin!(self.ask_in(Era::Modern, ask));
        let patience = Duration::from_millis(BRIDGE_PROBE_MS);
        let early = timeout(patience, &mut discover).await;
        match early {
            Ok(Ok(found)) if is_modern(&found) => return Ok(self.modern(&found)),
            Ok(Err(failure @ (Failure::Gone(_) | Failure::Login(_)))) => return Err(failure),
            _ => {}
        }
        let failure = match self.initialize(deadline).await {
            Err(failure) if early.is_err() => failure,
            met => return met,
        };
        match discover.now_or_never() {
            Some(Ok(found)) if is_modern(&found) => Ok(self.modern(&found)),
            _ => Err(failure),
        }
    }

    fn modern(&self, found: &Value) -> Hello {
        // Nobody else decides it.
        let _ = self.era.set(Era::Modern);
        let info = found.pointer("/_meta/io.modelcontextprotocol~1serverInfo");
        hello(found, info, MODERN)
    }

    async fn initialize(&self, deadline: Instant) -> Result<Hello, Failure> {
        let info = json!({"protocolVersion": LEGACY[0], "capabilities": self.can, "clientInfo": client_info()});
        let whole = info.to_string();
        let members = whole.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let params = members.unwrap_or_default().to_owned();
        let ask = Ask { params, ..Ask::new("initialize", deadline) };
        let met = self.ask_in(Era::Legacy, ask).await?;
        let version = met.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let Some(version) = LEGACY.into_iter().find(|known| *known == version) else {
            return Err(Failure::Wrong("it speaks no known revision of the protocol".to_owned()));
        };
        if let Wire::Web(web) = &self.wire {
            web.agreed(version);
        }
        let _ = self.era.set(Era::Legacy);
        self.tell("notifications/initialized", deadline).await?;
        let hello = hello(&met, met.get("serverInfo"), version);
        let _ = self.met.set(met);
        Ok(hello)
    }
}

fn is_modern(found: &Value) -> bool {
    let versions = found.get("supportedVersions").and_then(Value::as_array);
    versions.is_some_and(|versions| versions.iter().any(|version| version == MODERN))
}

fn hello(said: &Value, info: Option<&Value>, revision: &'static str) -> Hello {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let name = text(info.and_then(|info| info.get("name")));
    let instructions = text(said.get("instructions"));
    Hello { instructions, server: name.unwrap_or_default(), revision }
}

impl Hello {
    /// Returns it without secrets, and cut.
    pub(super) fn cleaned(self, redactor: &Redactor) -> Self {
        let cut = |text: String| redactor.short(&text, BRIDGE_INSTRUCTIONS_BYTES_MAX);
        let server = told(redactor, &self.server, BRIDGE_TOKEN_BYTES_MAX);
        Self { instructions: self.instructions.map(cut), server, ..self }
    }
}
