//! Simulated tools about what is deployed, and what it costs.

use claw_tool::ToolError;

use crate::Dice;

const CAUSES: [(&str, &str); 4] = [
    ("the container is killed for using more memory than its limit", "raise-memory-limit"),
    ("the new image does not exist in the registry", "roll-back-image"),
    ("a key of the config map was renamed and is missing", "restore-config-key"),
    ("the readiness probe times out since the last change", "relax-readiness-probe"),
];

/// Arguments of `sim_argocd_status`.
#[claw_tool::input]
pub(crate) struct Application {
    /// The application, for example "checkout".
    app: String,
    /// The environment it runs in.
    #[serde(default)]
    environment: Environment,
}

// Plain comments here: variants without documentation make the shortest schema.
#[claw_tool::input]
#[derive(Default, Clone, Copy, claw_tool::serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Environment {
    Dev,
    Staging,
    #[default]
    Prod,
}

impl Environment {
    const fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Staging => "staging",
            Self::Prod => "prod",
        }
    }
}

impl Application {
    fn dice(&self) -> Dice {
        Dice::of(&[&self.app, self.environment.name()])
    }
}

/// The state of an application.
#[claw_tool::output]
pub(crate) struct Status {
    /// Always true.
    simulated: bool,
    /// The application.
    app: String,
    /// Whether what runs is what is declared: "Synced" or "OutOfSync".
    sync: String,
    /// "Healthy", "Degraded" or "Progressing".
    health: String,
    /// The commit that runs.
    revision: String,
    /// Replicas that are ready.
    ready_replicas: u32,
    /// Replicas there should be.
    wanted_replicas: u32,
}

pub(crate) fn sim_argocd_status(args: &Application) -> Result<Status, ToolError> {
    let mut dice = args.dice();
    let health = dice.pick(&["Healthy", "Degraded", "Progressing"]);
    let wanted_replicas = 2 + dice.below(4);
    let missing = if health == "Healthy" { 0 } else { 1 + dice.below(wanted_replicas) };
    Ok(Status {
        simulated: true,
        app: args.app.clone(),
        sync: dice.pick(&["Synced", "OutOfSync"]),
        health,
        revision: dice.commit(),
        ready_replicas: wanted_replicas - missing.min(wanted_replicas),
        wanted_replicas,
    })
}

/// What is wrong with an application.
#[claw_tool::output]
pub(crate) struct Findings {
    /// Always true.
    simulated: bool,
    /// The application.
    app: String,
    /// What is most likely wrong.
    cause: String,
    /// What would mend it, as sim_argocd_fix_apply takes it.
    fix: String,
    /// Lines of a log that say so.
    evidence: Vec<String>,
    /// How sure that is, in percent.
    confidence_percent: u32,
}

pub(crate) fn sim_argocd_investigate(args: &Application) -> Result<Findings, ToolError> {
    let mut dice = args.dice();
    let causes = CAUSES.map(|(cause, _)| cause);
    let cause = dice.pick(&causes);
    let fix = CAUSES.iter().find(|(text, _)| *text == cause).map_or("", |(_, fix)| fix);
    let (app, pod) = (&args.app, dice.commit());
    Ok(Findings {
        simulated: true,
        app: app.clone(),
        evidence: vec![
            format!("{app}-{pod}: Back-off restarting failed container"),
            format!("{app}: {cause}"),
        ],
        cause,
        fix: fix.to_owned(),
        confidence_percent: 60 + dice.below(40),
    })
}

/// Arguments of `sim_argocd_fix_apply`.
#[claw_tool::input]
pub(crate) struct Fix {
    /// The application, for example "checkout".
    app: String,
    /// The fix, as sim_argocd_investigate names it, for example "roll-back-image".
    fix: String,
    /// Says what would be done, and does not even pretend to do it.
    #[serde(default)]
    dry_run: bool,
}

/// What was done.
#[claw_tool::output]
pub(crate) struct Applied {
    /// Always true.
    simulated: bool,
    /// The application.
    app: String,
    /// Whether the fix was applied; false for a dry run.
    applied: bool,
    /// What was done, or would be.
    steps: Vec<String>,
    /// The commit that runs afterwards.
    revision: String,
}

pub(crate) fn sim_argocd_fix_apply(args: &Fix) -> Result<Applied, ToolError> {
    if !CAUSES.iter().any(|(_, fix)| *fix == args.fix) {
        let known = CAUSES.map(|(_, fix)| fix).join(", ");
        return Err(ToolError::invalid_args(format!("unknown fix; there are: {known}")));
    }
    let Fix { app, fix, dry_run } = args;
    Ok(Applied {
        simulated: true,
        app: app.clone(),
        applied: !dry_run,
        steps: vec![
            format!("change the manifests of {app}: {fix}"),
            format!("sync {app} and wait until it is healthy"),
        ],
        revision: Dice::of(&[app, fix]).commit(),
    })
}

/// Arguments of `sim_cost_regression`.
#[claw_tool::input]
pub(crate) struct CostQuestion {
    /// The service, for example "checkout".
    service: String,
    /// Days that are compared with those before them; 7 where it is not said.
    #[serde(default)]
    days: Option<u32>,
}

/// How a service's cost has changed.
#[claw_tool::output]
pub(crate) struct CostChange {
    /// Always true.
    simulated: bool,
    /// The service.
    service: String,
    /// Days that were compared with those before them.
    days: u32,
    /// US dollars of the days before.
    before_usd: u32,
    /// US dollars of these days.
    after_usd: u32,
    /// Whether that is a regression: a tenth more, or over.
    regression: bool,
    /// Why, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
}

pub(crate) fn sim_cost_regression(args: &CostQuestion) -> Result<CostChange, ToolError> {
    let days = args.days.unwrap_or(7);
    if !(1..=365).contains(&days) {
        return Err(ToolError::invalid_args("`days` is 1 to 365"));
    }
    let mut dice = Dice::of(&[&args.service, &days.to_string()]);
    let before_usd = (100 + dice.below(900)) * days;
    let after_usd = before_usd / 100 * (90 + dice.below(60));
    let regression = after_usd >= before_usd + before_usd / 10;
    let cause = dice.pick(&[
        "the autoscaler's lower bound was raised",
        "debug logging was left on",
        "a cache was switched off, and the database is asked instead",
    ]);
    Ok(CostChange {
        simulated: true,
        service: args.service.clone(),
        days,
        before_usd,
        after_usd,
        regression,
        cause: regression.then_some(cause),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn application(app: &str) -> Application {
        Application { app: app.to_owned(), environment: Environment::Prod }
    }

    #[test]
    fn no_more_replicas_are_ready_than_there_should_be() {
        for number in 0..200 {
            let status = sim_argocd_status(&application(&number.to_string())).unwrap();
            assert!(status.simulated && status.ready_replicas <= status.wanted_replicas);
            let well = status.health == "Healthy";
            assert_eq!(well, status.ready_replicas == status.wanted_replicas, "{status:?}");
        }
    }

    #[test]
    fn what_an_investigation_names_can_be_applied_and_nothing_else() {
        let findings = sim_argocd_investigate(&application("checkout")).unwrap();
        let fix =
            |fix: &str, dry_run| Fix { app: "checkout".to_owned(), fix: fix.to_owned(), dry_run };
        assert!(sim_argocd_fix_apply(&fix(&findings.fix, false)).unwrap().applied);
        assert!(!sim_argocd_fix_apply(&fix(&findings.fix, true)).unwrap().applied);
        assert!(matches!(
            sim_argocd_fix_apply(&fix("reboot", false)),
            Err(ToolError::InvalidArgs(_))
        ));
    }

    #[test]
    fn a_regression_has_a_cause_and_bounded_days() {
        for number in 0..200 {
            let question = CostQuestion { service: number.to_string(), days: None };
            let change = sim_cost_regression(&question).unwrap();
            assert_eq!(change.regression, change.cause.is_some());
        }
        let endless = CostQuestion { service: "x".to_owned(), days: Some(u32::MAX) };
        assert!(sim_cost_regression(&endless).is_err());
    }
}
