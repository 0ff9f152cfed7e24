//! Built-in tools about language models: `model_list`, `model_prefs`, `cost_summary`.

mod costs;

use claw_tool::{ToolError, models};

/// Arguments of `model_list`: none.
#[claw_tool::input]
struct ModelList {}

/// The models that completions may be asked of.
#[claw_tool::output]
struct Models {
    /// In the manifest's order.
    models: Vec<Model>,
}

/// One model.
#[claw_tool::output]
struct Model {
    /// Its provider's name in the manifest.
    provider: String,
    /// The provider's own name of it.
    model: String,
    /// Asked where neither a request nor a preference says which.
    default: bool,
    /// What this agent prefers.
    preferred: bool,
    /// Whether this host can ask it.
    available: bool,
    /// Why not, where it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Tokens it may be asked for between two midnights UTC, where that is bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_per_day: Option<u64>,
    /// Requests it may be sent in a minute, where that is bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_minute: Option<u64>,
    /// Tokens it can look at at once, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    context_window: Option<u64>,
}

/// Arguments of `model_prefs`.
#[claw_tool::input]
struct ModelPrefs {
    /// "get" returns what this agent prefers, "set" changes it, "clear" takes it back.
    #[serde(default)]
    action: Action,
    /// For "set": the name of a provider or of its model, as model_list returns them.
    #[serde(default)]
    model: Option<String>,
}

// Plain comments here: variants without documentation make the shortest schema.
#[claw_tool::input]
#[derive(Default, Clone, Copy, claw_tool::serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    #[default]
    Get,
    Set,
    Clear,
}

/// What this agent prefers.
#[claw_tool::output]
struct Preference {
    /// The provider or model; null where the manifest's first one is asked.
    preferred: Option<String>,
}

fn model_list(_: &ModelList) -> Result<Models, ToolError> {
    let preferred = models::preferred()?;
    let listed = models::list()?.into_iter().enumerate();
    Ok(Models { models: listed.map(|(at, it)| model(at == 0, preferred.as_deref(), it)).collect() })
}

fn model(default: bool, preferred: Option<&str>, model: models::Model) -> Model {
    Model {
        default,
        preferred: preferred.is_some_and(|name| name == model.provider || name == model.model),
        available: model.unserved.is_none(),
        reason: model.unserved,
        provider: model.provider,
        model: model.model,
        tokens_per_day: model.tokens_per_day,
        requests_per_minute: model.requests_per_minute,
        context_window: model.context_window,
    }
}

fn model_prefs(args: &ModelPrefs) -> Result<Preference, ToolError> {
    match (args.action, args.model.as_deref()) {
        (Action::Get, None) => {}
        (Action::Clear, None) => models::prefer(None)?,
        (Action::Set, Some(model)) => models::prefer(Some(model))?,
        (Action::Set, None) => return Err(ToolError::invalid_args("\"set\" needs `model`")),
        (_, Some(_)) => return Err(ToolError::invalid_args("only \"set\" has a `model`")),
    }
    Ok(Preference { preferred: models::preferred()? })
}

use costs::cost_summary;

claw_tool::export! {
    /// Lists the language models that this host's manifest has, with their limits, which one is
    /// asked by default, and which one this agent prefers.
    model_list [read_only, idempotent, closed_world],
    /// Reads or changes which model this agent's tools ask where they name none. The preference is
    /// kept until it is changed; a model that leaves the manifest is no longer preferred.
    model_prefs [additive, idempotent, closed_world],
    /// Sums up what completions of language models have cost this agent, by agent, tool or
    /// provider, over a period of whole days (UTC): requests, tokens and US dollars at the prices
    /// that the operator has set. What was asked and not answered counts as it was reserved. Only
    /// where the operator allows it are other agents' costs in it.
    cost_summary [read_only, idempotent, closed_world],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(unserved: Option<&str>) -> models::Model {
        models::Model {
            provider: "main".to_owned(),
            model: "m-1".to_owned(),
            unserved: unserved.map(str::to_owned),
            tokens_per_day: None,
            requests_per_minute: None,
            context_window: None,
        }
    }

    #[test]
    fn a_preference_may_name_the_provider_or_its_model() {
        for (preferred, is_preferred) in
            [(None, false), (Some("main"), true), (Some("m-1"), true), (Some("m"), false)]
        {
            assert_eq!(model(false, preferred, listed(None)).preferred, is_preferred);
        }
        assert!(!model(true, None, listed(Some("why"))).available);
    }

    #[test]
    fn a_model_goes_with_set_and_with_nothing_else() {
        let wrong = |action, model: Option<&str>| {
            let args = ModelPrefs { action, model: model.map(str::to_owned) };
            matches!(model_prefs(&args), Err(ToolError::InvalidArgs(_)))
        };
        assert!(wrong(Action::Set, None));
        assert!(wrong(Action::Get, Some("m")));
        assert!(wrong(Action::Clear, Some("m")));
    }
}
