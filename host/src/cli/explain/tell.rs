//! The story of a call in words and as JSON.

use std::time::Duration;

use clawhost_core::grants::{Access, Grants};
use clawhost_core::json::put;
use clawhost_core::limits::{APPROVAL_TIMEOUT_CEILING_MS, APPROVAL_TIMEOUT_MS};
use clawhost_core::manifest::Autonomy;
use clawhost_core::policy::{ApprovalTerms, List, Rates, Step};
use clawhost_core::screen::Finding;
use clawhost_core::visible;
use serde_json::{Value, json};

use super::super::show;
use super::Story;
use crate::clock::whole_ms;
use crate::sandbox::fs::{Fault, Outlook};

impl Story<'_> {
    pub(super) fn as_json(&self) -> Value {
        let explanation = &self.rehearsal.explanation;
        let rule = explanation.verdict.rule();
        let (outcome, stage, reason) = self.outcome();
        let grants = &self.rehearsal.grants;
        let paths = &self.rehearsal.paths;
        let quotas = json!({
            "tool_calls_per_minute": self.rates.tool_calls_per_minute,
            "calls_per_minute": self.calls_per_minute(),
            "tokens_per_hour": self.rates.tokens_per_hour,
            "cost_per_day_usd": self.rates.cost_per_day_usd,
            "tokens_last_hour": self.tokens_last_hour,
            "tokens_today": self.usage.tokens_today,
            "cost_today_usd": self.usage.cost_today_usd,
        });
        let approval = self.terms().map(|terms| {
            json!({
                "timeout_seconds": patience(terms).as_secs(),
                "default_if_timeout": if terms.allow_on_timeout { "allow" } else { "deny" },
            })
        });
        let mut told = json!({
            "tool": self.tool.definition.name,
            "uri": format!("claw://local/tool/{}", self.tool.ckp_name),
            "outcome": outcome,
            "stage": stage,
            "reason": reason,
            "rule": rule.map(|rule| json!({"policy": rule.policy, "id": rule.id})),
            "steps": explanation.steps.iter().map(step_json).collect::<Value>(),
            "arguments": {
                "given": self.given,
                "problem": self.problem(),
                "paths": self.given.then_some(paths.as_slice()),
            },
            "findings": self.rehearsal.findings.iter().map(finding).collect::<Value>(),
            "autonomy": autonomy(self.autonomy),
            "approval": approval,
            "sandbox": {
                "profile": grants.profile,
                "may_touch": show::touches(grants),
                "timeout_ms": whole_ms(grants.limits.timeout),
                "paths": self.rehearsal.outlooks.iter().map(outlook).collect::<Value>(),
                "tool_refuses": self.tool_refuses,
            },
            "calls": self.calls,
            "quarantine": self.rests,
            "quotas": quotas,
        });
        put(&mut told, "agents", self.agents().map(Value::from));
        told
    }

    pub(super) fn as_text(&self) -> String {
        let (is, _, mut reason) = self.outcome();
        if let (Some(path), true) = (&self.tool_refuses, self.rehearsal.ask.is_ok()) {
            let why = "is absolute or leads out of its folder, so the tool itself would refuse it";
            reason = format!("{reason}; `{}` {why}", visible::line(path));
        }
        let outlooks = &self.rehearsal.outlooks;
        let beyond = outlooks.iter().find(|it| it.says.is_err_and(Fault::is_denial));
        if let (Some(path), true) = (beyond, self.rehearsal.ask.is_ok()) {
            reason = format!("{reason}; the sandbox would refuse a path: {}", met(path));
        }
        let is = match is {
            "asks" => "waits for a person".to_owned(),
            is => format!("is {is}"),
        };
        let mut table = show::table(&["list", "rule", "does", "at", "outcome"]);
        for step in &self.rehearsal.explanation.steps {
            let rule = format!("{}/{}", step.rule.policy, step.rule.id);
            let outcome = step.mismatch.as_deref().unwrap_or("matches");
            table.add_row([list(step.list), &rule, step.action.name(), &step.at, outcome]);
        }
        let mut lines = vec![
            format!("{} {is}: {reason}\n", self.tool.definition.name),
            format!("{}\n", table.trim_fmt()),
            format!("arguments: {}", self.arguments_line()),
            format!("screens:   {}", self.screens_line()),
            format!("autonomy:  {}", self.autonomy_line()),
            format!("approval:  {}", self.approval_line()),
            format!("sandbox:   {}", self.sandbox_line()),
            format!("quotas:    {}", self.quotas_line()),
        ];
        if let Some(agents) = self.agents() {
            let agents = agents.join(", ");
            let more = if self.is_of_one { "" } else { ": `--agent NAME` tells of one" };
            lines.push(format!("agents:    compiled for {agents}{more}"));
        }
        lines.extend(
            self.calls.iter().map(|calls| format!("steps:     it {calls}, each decided by itself")),
        );
        lines.extend(self.rests.iter().map(|hold| format!("quarantine: it {}", hold.told())));
        lines.extend(outlooks.iter().map(|path| format!("path:      {}", met(path))));
        lines.join("\n")
    }

    fn arguments_line(&self) -> String {
        if !self.given {
            return "none given: rules about arguments count as they suit the call".to_owned();
        }
        let paths = &self.rehearsal.paths;
        let paths = match paths.is_empty() {
            true if self.calls.is_some() => "their paths are those of its steps".to_owned(),
            true => "they hold no path".to_owned(),
            false => format!("their paths are {}", paths.join(", ")),
        };
        match self.problem() {
            None => format!("they match the schema; {paths}"),
            Some(_) => "they do not match the schema".to_owned(),
        }
    }

    fn screens_line(&self) -> String {
        let found: Vec<String> = self
            .rehearsal
            .findings
            .iter()
            .map(|found| format!("{}: {} (policy `{}`)", found.check, found.what, found.policy))
            .collect();
        match (self.screened, self.given) {
            (false, _) => "none".to_owned(),
            (true, false) => "some, which look at arguments or results".to_owned(),
            (true, true) if found.is_empty() => "nothing found in the arguments".to_owned(),
            (true, true) => found.join("; "),
        }
    }

    fn autonomy_line(&self) -> String {
        let what = match self.autonomy {
            Autonomy::Autonomous => "the rules alone decide",
            Autonomy::Observer => "no tool runs",
            Autonomy::Supervised if self.tool.declares("readOnlyHint") => {
                "the manifest says that the tool only reads, so nobody is asked for it"
            }
            Autonomy::Supervised => "a person is asked, as the tool may have side effects",
        };
        format!("{}: {what}", autonomy(self.autonomy))
    }

    fn approval_line(&self) -> String {
        match self.terms() {
            None => "nobody is asked".to_owned(),
            Some(terms) => {
                let silence = if terms.allow_on_timeout { "yes" } else { "no" };
                format!("a person has {} s; silence means {silence}", patience(terms).as_secs())
            }
        }
    }

    fn sandbox_line(&self) -> String {
        let Grants { profile, limits, .. } = &self.rehearsal.grants;
        let touches = show::touches(&self.rehearsal.grants);
        format!("`{profile}`: {touches}; {} ms a call", limits.timeout.as_millis())
    }

    fn calls_per_minute(&self) -> Option<u64> {
        self.tool.governed.as_ref()?.calls_per_minute
    }

    fn quotas_line(&self) -> String {
        let Rates { tool_calls_per_minute, tokens_per_hour, cost_per_day_usd } = self.rates;
        let parts: Vec<String> = [
            tool_calls_per_minute.map(|calls| format!("{calls} calls a minute for each caller")),
            self.calls_per_minute()
                .map(|calls| format!("{calls} calls of this tool a minute for each caller")),
            tokens_per_hour
                .map(|tokens| format!("{tokens} tokens an hour, {} used", self.tokens_last_hour)),
            cost_per_day_usd
                .map(|cost| format!("{cost} USD a day, {} spent", self.usage.cost_today_usd)),
        ]
        .into_iter()
        .flatten()
        .collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join("; ") }
    }
}

/// Says what a path would meet in the sandbox.
fn met(Outlook { path, mount, says }: &Outlook) -> String {
    let Some(mount) = mount else { return format!("{path} lies in no granted folder") };
    let place = format!("{path} lies in the granted folder `{mount}`");
    match says {
        Err(fault) => format!("{place}: {fault}"),
        Ok((access, there)) => {
            let may = match access {
                Access::ReadOnly => "it may only be read",
                Access::ReadWrite => "it may be read and written",
            };
            let there = if *there { "" } else { ", and is not there" };
            format!("{place}: {may}{there}")
        }
    }
}

fn outlook(path: &Outlook) -> Value {
    json!({
        "path": path.path,
        "mount": path.mount,
        "refused": path.says.is_err_and(Fault::is_denial),
        "writable": matches!(path.says, Ok((Access::ReadWrite, _))),
        "exists": matches!(path.says, Ok((_, true))),
        "says": met(path),
    })
}

fn patience(terms: ApprovalTerms) -> Duration {
    let default = Duration::from_millis(APPROVAL_TIMEOUT_MS);
    terms.timeout.unwrap_or(default).min(Duration::from_millis(APPROVAL_TIMEOUT_CEILING_MS))
}

const fn list(list: List) -> &'static str {
    match list {
        List::All => "manifest",
        List::Asked => "--policy",
        List::Own => "tool",
    }
}

const fn autonomy(autonomy: Autonomy) -> &'static str {
    match autonomy {
        Autonomy::Autonomous => "autonomous",
        Autonomy::Observer => "observer",
        Autonomy::Supervised => "supervised",
    }
}

fn step_json(step: &Step) -> Value {
    json!({
        "list": list(step.list),
        "policy": step.rule.policy,
        "rule": step.rule.id,
        "action": step.action.name(),
        "at": step.at,
        "matches": step.mismatch.is_none(),
        "mismatch": step.mismatch,
    })
}

fn finding(found: &Finding) -> Value {
    json!({"check": found.check, "policy": found.policy, "what": found.what})
}
