//! `clawhost proxy`: serve completions with tools in them.

use std::path::PathBuf;

use clawhost_core::descriptor::AgentTools;
use clawhost_core::manifest::{Manifest, ProviderPlan, ProxySettings};
use clawhost_core::quota::Prices;

use super::args::{ProxyArgs, RunArgs};
use super::fail::Fail;
use super::reload::Hangups;
use super::run;
use super::setup::{self, Purpose, Setup};
use crate::proxy::ProxyOptions;

/// The folder of the state folder where each agent's turns are written down.
pub(super) const HISTORY_FOLDER: &str = "proxy";

pub(super) async fn run(args: ProxyArgs) -> Result<u8, Fail> {
    let ProxyArgs { manifest, places, http, no_auth } = args;
    let paths: Vec<PathBuf> = vec![manifest];
    let (manifest, mut settings) = setup::documents(&paths, &places)?;
    if manifest.providers.is_empty() {
        let help = "write `providers` into the manifest: they are who answers";
        return Err(Fail::usage("the manifest has no provider", help));
    }
    warn(&manifest);
    let hangups = Hangups::catch();
    settings.proxy.enabled = true;
    let http = http.or(settings.http.address).or(Some(run::DEFAULT_ADDRESS));
    let setup = setup::make(manifest, settings, &places, Purpose::Serve).await?;
    run::check_definitions(&setup, &places)?;
    let args = RunArgs { paths, places, stdio: false, http, no_auth };
    run::serve(setup, args, true, hangups).await
}

/// Says which budgets count less than they seem to.
fn warn(manifest: &Manifest) {
    let is_free = |plan: &&ProviderPlan| plan.prices == Prices::default();
    let free = manifest.providers.iter().filter(is_free).map(|plan| plan.name.as_str());
    let free = free.collect::<Vec<_>>().join(", ");
    let is_in_money =
        |of: &AgentTools| of.budget.is_some_and(|budget| budget.limit_nano_usd.is_some());
    if !free.is_empty() && manifest.agents.values().any(is_in_money) {
        tracing::warn!("a budget's `limit-usd` counts nothing for {free}: no price is stated");
    }
}

/// Returns how completions are served, where the runtime file or the verb asks for it.
pub(super) fn options(setup: &Setup) -> Option<ProxyOptions> {
    let ProxySettings { enabled, history, policy, prune_sentinels } = setup.settings.proxy.clone();
    let history = history.then(|| setup.state.path().join(HISTORY_FOLDER));
    enabled.then_some(ProxyOptions { policy, history, prune_sentinels })
}
