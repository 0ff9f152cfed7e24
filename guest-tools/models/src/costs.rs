//! `cost_summary`: what was spent, added up.

use std::collections::BTreeMap;

use claw_tool::json::Room;
use claw_tool::{ToolError, models};

/// The host returns no more entries than this, the dearest first.
const COSTS_MAX: usize = 1_000;
const NANO_USD_PER_USD: f64 = 1e9;

/// Arguments of `cost_summary`.
#[claw_tool::input]
pub(crate) struct CostSummary {
    /// Whole days in UTC, today being the last: "today", "week" (7), "month" (30) or "year" (365).
    #[serde(default)]
    period: Period,
    /// What the costs are told apart by: any of "agent", "tool" and "provider"; by provider where
    /// it is not said. An empty list gives the total only.
    #[serde(default)]
    by: Option<Vec<By>>,
}

// Plain comments here: variants without documentation make the shortest schema.
#[claw_tool::input]
#[derive(Default, Clone, Copy, claw_tool::serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Period {
    Today,
    Week,
    #[default]
    Month,
    Year,
}

#[claw_tool::input]
#[derive(Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum By {
    Agent,
    Tool,
    Provider,
}

/// What was spent.
#[claw_tool::output]
pub(crate) struct Summary {
    /// Days that are counted, today included.
    days: u32,
    /// Everything together.
    total: Sums,
    /// The parts, the dearest first; without those that were not asked for.
    groups: Vec<Group>,
    /// Present, and true, where there are more parts than a reply holds, or more than could be added
    /// up; the dearest are here.
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
}

/// One part.
#[claw_tool::output]
struct Group {
    /// Who called.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    /// The tool that asked for completions.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// The provider that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    /// What it came to.
    sums: Sums,
}

/// What completions came to.
#[claw_tool::output]
#[derive(Default, Clone, Copy)]
struct Sums {
    /// Requests that were sent.
    requests: u64,
    /// Tokens of the prompts.
    prompt_tokens: u64,
    /// Tokens of the completions.
    completion_tokens: u64,
    /// US dollars.
    cost_usd: f64,
}

/// What a part is told apart by.
type Key = [Option<String>; 3];

pub(crate) fn cost_summary(args: &CostSummary) -> Result<Summary, ToolError> {
    let days = match args.period {
        Period::Today => 1,
        Period::Week => 7,
        Period::Month => 30,
        Period::Year => 365,
    };
    let by = args.by.as_deref().unwrap_or(&[By::Provider]);
    Ok(summary(days, by, &models::costs(days)?))
}

fn summary(days: u32, by: &[By], costs: &[models::Cost]) -> Summary {
    let mut total = Sums::default();
    let mut parts = BTreeMap::<Key, Sums>::new();
    for cost in costs {
        total.add(cost);
        parts.entry(key(by, cost)).or_default().add(cost);
    }
    let mut groups: Vec<Group> = parts.into_iter().filter(|_| !by.is_empty()).map(group).collect();
    groups.sort_by(|a, b| b.sums.cost_usd.total_cmp(&a.sums.cost_usd));
    let (mut room, all) = (Room::default(), groups.len());
    let groups: Vec<_> = groups.into_iter().take_while(|group| room.takes(group)).collect();
    let truncated = (groups.len() < all || costs.len() >= COSTS_MAX).then_some(true);
    Summary { days, total, groups, truncated }
}

fn key(by: &[By], cost: &models::Cost) -> Key {
    let names = [(By::Agent, &cost.agent), (By::Tool, &cost.tool), (By::Provider, &cost.provider)];
    names.map(|(what, name)| by.contains(&what).then(|| name.clone()))
}

fn group(([agent, tool, provider], sums): (Key, Sums)) -> Group {
    Group { agent, tool, provider, sums }
}

impl Sums {
    #[expect(clippy::cast_precision_loss, reason = "a summary, not a bill")]
    fn add(&mut self, cost: &models::Cost) {
        self.requests += cost.requests;
        self.prompt_tokens += cost.prompt_tokens;
        self.completion_tokens += cost.completion_tokens;
        self.cost_usd += cost.nano_usd as f64 / NANO_USD_PER_USD;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(agent: &str, tool: &str, nano_usd: u64) -> models::Cost {
        models::Cost {
            agent: agent.to_owned(),
            tool: tool.to_owned(),
            provider: "main".to_owned(),
            requests: 1,
            prompt_tokens: 10,
            completion_tokens: 2,
            nano_usd,
        }
    }

    #[test]
    fn costs_are_added_up_by_what_was_asked_for() {
        let costs = [cost("a", "x", 1_000_000_000), cost("b", "y", 500_000_000), cost("a", "y", 1)];
        let by_tool = summary(7, &[By::Tool], &costs);
        let tools: Vec<_> = by_tool.groups.iter().map(|group| group.tool.as_deref()).collect();
        assert_eq!(tools, [Some("x"), Some("y")]);
        assert_eq!(by_tool.groups[1].sums.requests, 2);
        assert!(by_tool.groups.iter().all(|group| group.agent.is_none()));
        assert_eq!((by_tool.total.requests, by_tool.total.prompt_tokens), (3, 30));
        assert!((by_tool.total.cost_usd - 1.5).abs() < 1e-6);
        assert_eq!(summary(7, &[By::Agent, By::Tool], &costs).groups.len(), 3);
        assert!(summary(7, &[], &costs).groups.is_empty());
        assert_eq!(summary(7, &[], &[]).total.requests, 0);
    }

    #[test]
    fn of_more_parts_than_a_reply_holds_the_dearest_are_told_and_all_added_up() {
        let named = |n: u64| cost(&format!("agent-{n}"), &format!("tool-{n}"), n * 1_000_000);
        let costs: Vec<_> = (0..900).map(named).collect();
        let told = summary(7, &[By::Agent, By::Tool, By::Provider], &costs);
        assert!((100..900).contains(&told.groups.len()), "{}", told.groups.len());
        assert_eq!(told.groups[0].agent.as_deref(), Some("agent-899"));
        assert_eq!((told.truncated, told.total.requests), (Some(true), 900));
    }
}
