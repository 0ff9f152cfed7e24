//! SIGHUP: a host that runs reads its documents and its runtime file anew.
//!
//! All of it or nothing: where anything is wrong, what is wrong is said and the host goes on as it was.
//! A host whose terminal has gone stops instead, as it always did.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;

use clawhost_core::manifest::{DocumentError, Manifest, Settings};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::args::{HostArgs, RunArgs};
use super::fail::print_document;
use super::run;
use super::setup::{self, Setup};
use crate::Host;
use crate::state::{Credentials, StateDir};

/// The signal, caught from the moment that this is made: one that comes while a host is being made would end it.
pub(super) struct Hangups {
    signal: Option<Signal>,
    had_terminal: bool,
}

impl Hangups {
    pub(super) fn catch() -> Self {
        let signal = signal(SignalKind::hangup())
            .inspect_err(|error| tracing::warn!("SIGHUP does not reload: {error}"));
        Self { signal: signal.ok(), had_terminal: std::io::stdin().is_terminal() }
    }
}

/// Heeds the signal until the host stops.
pub(super) fn on_hangup(
    hangups: Hangups,
    setup: &Setup,
    args: &RunArgs,
    is_proxy: bool,
    stop: CancellationToken,
) {
    let Hangups { signal: Some(mut signal), had_terminal } = hangups else { return };
    let reader = Reader {
        host: setup.host.clone(),
        settings: setup.settings.clone(),
        credentials: Arc::clone(&setup.credentials),
        state: setup.state.clone(),
        is_proxy,
        paths: args.paths.clone(),
        places: args.places.clone(),
    };
    tokio::spawn(async move {
        while let Some(Some(())) = stop.run_until_cancelled(signal.recv()).await {
            // A terminal that hung up is none any more.
            if had_terminal && !std::io::stdin().is_terminal() {
                return stop.cancel();
            }
            match reader.reload().await {
                Ok(()) => eprintln!("reloaded"),
                Err(reason) => eprintln!("not reloaded, all goes on as it was: {reason}"),
            }
        }
    });
}

/// What is read anew, and for whom.
struct Reader {
    host: Host,
    /// As they were when the host started.
    settings: Settings,
    /// Likewise.
    credentials: Arc<Credentials>,
    state: StateDir,
    /// The verb serves completions, whatever the runtime file says of that.
    is_proxy: bool,
    paths: Vec<PathBuf>,
    places: HostArgs,
}

impl Reader {
    async fn reload(&self) -> Result<(), String> {
        let (paths, places) = (self.paths.clone(), self.places.clone());
        // It may ask registries.
        let read = move || setup::documents(&setup::with_default(&paths), &places);
        let read = tokio::task::spawn_blocking(read).await.map_err(|error| error.to_string())?;
        let (manifest, mut settings): (Manifest, Settings) = read.map_err(|wrong| told(&wrong))?;
        settings.proxy.enabled |= self.is_proxy;
        let mut changed = fixed(&self.settings, &settings);
        let outdated = self.credentials.are_outdated(&self.state);
        if outdated.map_err(|error| error.to_string())? {
            changed.push("`credentials.json`");
        }
        if !changed.is_empty() {
            return Err(format!("start the host anew for a change of {}", changed.join(", ")));
        }
        let strays = run::strays(&self.host, &manifest, &settings, &self.places);
        if !strays.is_empty() {
            return Err(told(&strays));
        }
        self.host.reload(manifest).await.map_err(|error| error.to_string())
    }
}

/// Prints every problem, and says how many there are.
fn told(wrong: &[DocumentError]) -> String {
    wrong.iter().for_each(print_document);
    match wrong.len() {
        1 => "1 problem in its documents".to_owned(),
        many => format!("{many} problems in its documents"),
    }
}

/// Says what differs between two runtime files that a host keeps as long as it runs.
fn fixed(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let names =
        |of: &Settings| of.agents.iter().map(|agent| agent.name.clone()).collect::<Vec<_>>();
    let agents = |of: &Settings| (names(of), of.elicitors(), of.identities());
    [
        ("`agents`", agents(old) == agents(new)),
        ("`audit`", old.audit == new.audit),
        ("`http`", old.http == new.http),
        ("`limits`", old.limits == new.limits),
        ("`proxy`", old.proxy == new.proxy),
        ("`registry`", old.releases == new.releases),
        ("`state`", old.state == new.state),
        ("`tools.directory`", old.tools.directory == new.tools.directory),
        ("`tools.replace_builtins`", old.tools.replace_builtins == new.tools.replace_builtins),
    ]
    .into_iter()
    .filter_map(|(what, is_same)| (!is_same).then_some(what))
    .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn whatever_changed_that_a_host_keeps_as_it_was_is_named_once() {
        let read = |text: &str| {
            let text = format!("version: 1\n{text}\n");
            Settings::read(Some((Path::new("clawhost.yaml"), text.as_bytes())), []).unwrap()
        };
        for (old, new, changed) in [
            ("proxy: {enabled: true}", "proxy: {enabled: false}", &["`proxy`"][..]),
            ("proxy: {enabled: true}", "proxy: {enabled: true}", &[]),
            ("proxy: {enabled: true}", "proxy: {enabled: true, history: false}", &["`proxy`"]),
            ("agents: [{name: a}]", "agents: [{name: a}]", &[]),
            ("agents: [{name: a}]", "agents: [{name: b}]", &["`agents`"]),
            ("agents: [{name: a}]", "agents: [{name: a, elicitation: true}]", &["`agents`"]),
            ("agents: [{name: a}]", "agents: [{name: b, identity: c}]", &["`agents`"]),
        ] {
            assert_eq!(fixed(&read(old), &read(new)), changed, "{new}");
        }
    }
}
