//! `clawhost proxy`: serve completions with tools in them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clawhost_core::descriptor::AgentTools;
use clawhost_core::mediate::TurnBounds;

use super::args::{ProxyArgs, RunArgs};
use super::fail::Fail;
use super::run;
use super::setup::{self, Purpose, Setup};
use crate::proxy::ProxyOptions;
use crate::registry::contexts;

/// The folder of the state folder where each agent's turns are written down.
pub(super) const HISTORY_FOLDER: &str = "proxy";

pub(super) async fn run(args: ProxyArgs) -> Result<u8, Fail> {
    let ProxyArgs { manifest, places, context, http, no_auth } = args;
    let paths = vec![manifest];
    let (mut manifest, mut settings) =
        setup::documents(&paths, &places).map_err(Fail::Documents)?;
    if manifest.providers.is_empty() {
        let help = "write `providers` into the manifest: they are who answers";
        return Err(Fail::usage("the manifest has no provider", help));
    }
    settings.proxy.enabled = true;
    let read = |folder: PathBuf| contexts(&folder, &mut manifest).map_err(Fail::Documents);
    let agents = context.map(read).transpose()?.unwrap_or_default();
    settings.admit(agents.keys().cloned());
    let bounds =
        agents.into_iter().map(|(name, AgentTools { policy, .. })| (name, policy)).collect();
    let http = http.or(settings.http.address).or(Some(run::DEFAULT_ADDRESS));
    let setup = setup::make(manifest, settings, &places, Purpose::Serve).await?;
    run::check_definitions(&setup, &places)?;
    run::serve(setup, RunArgs { paths, places, stdio: false, http, no_auth }, Some(bounds)).await
}

/// Returns how completions are served, where the runtime file or the verb asks for it.
pub(super) fn options(setup: &Setup, agents: BTreeMap<String, TurnBounds>) -> Option<ProxyOptions> {
    let proxy = setup.settings.proxy;
    let history = proxy.history.then(|| setup.state.path().join(HISTORY_FOLDER));
    let options = || ProxyOptions { policy: proxy.policy, agents, history };
    proxy.enabled.then(options)
}
