//! Who may give work to whom.

use clawhost_core::manifest::{SwarmAgent, SwarmPlan, Topology};

/// The role that gives work in [`Topology::LeaderWorker`].
const LEADER: &str = "leader";

/// Returns the identities that work of `from` can go to, each once, in the order of the plan.
pub(super) fn candidates<'a>(plan: &'a SwarmPlan, from: &str) -> Vec<&'a str> {
    let own = plan.agents.iter().position(|agent| agent.identity == from);
    let chosen: Vec<&SwarmAgent> = match own {
        None => from_outside(plan),
        Some(own) => from_inside(plan, own),
    };
    let mut names: Vec<&str> = Vec::new();
    for agent in chosen {
        // One of several of the same name may give work to another of them.
        let reachable = agent.identity != from || agent.count > 1;
        if reachable && !names.contains(&agent.identity.as_str()) {
            names.push(&agent.identity);
        }
    }
    names
}

fn from_inside(plan: &SwarmPlan, own: usize) -> Vec<&SwarmAgent> {
    let later = || plan.agents.iter().skip(own + 1);
    match plan.topology {
        Topology::Broadcast | Topology::PeerToPeer => plan.agents.iter().collect(),
        Topology::Hierarchical => later().collect(),
        Topology::Pipeline => later().take(1).collect(),
        Topology::LeaderWorker => {
            let leads = plan.agents.get(own).is_some_and(is_leader);
            plan.agents.iter().filter(|agent| is_leader(agent) != leads).collect()
        }
    }
}

/// Work from outside enters at the top.
fn from_outside(plan: &SwarmPlan) -> Vec<&SwarmAgent> {
    match plan.topology {
        Topology::Broadcast | Topology::PeerToPeer => plan.agents.iter().collect(),
        Topology::Hierarchical | Topology::Pipeline => plan.agents.iter().take(1).collect(),
        Topology::LeaderWorker => {
            let leaders: Vec<&SwarmAgent> = plan.agents.iter().filter(|a| is_leader(a)).collect();
            if leaders.is_empty() { plan.agents.iter().take(1).collect() } else { leaders }
        }
    }
}

fn is_leader(agent: &SwarmAgent) -> bool {
    agent.role == LEADER
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::tests::plan;

    #[test]
    fn the_topology_says_who_gives_work_to_whom() {
        let agents = [("boss", LEADER, 1), ("ant", "worker", 1), ("bee", "worker", 2)];
        let rows: [(Topology, &str, &[&str]); 13] = [
            (Topology::LeaderWorker, "boss", &["ant", "bee"]),
            (Topology::LeaderWorker, "ant", &["boss"]),
            (Topology::LeaderWorker, "stranger", &["boss"]),
            (Topology::Pipeline, "boss", &["ant"]),
            (Topology::Pipeline, "bee", &[]),
            (Topology::Pipeline, "stranger", &["boss"]),
            (Topology::Hierarchical, "boss", &["ant", "bee"]),
            (Topology::Hierarchical, "ant", &["bee"]),
            (Topology::Hierarchical, "stranger", &["boss"]),
            (Topology::PeerToPeer, "ant", &["boss", "bee"]),
            (Topology::PeerToPeer, "bee", &["boss", "ant", "bee"]),
            (Topology::Broadcast, "boss", &["ant", "bee"]),
            (Topology::Broadcast, "stranger", &["boss", "ant", "bee"]),
        ];
        for (topology, from, expected) in rows {
            let plan = plan(topology, &agents);
            assert_eq!(candidates(&plan, from), expected, "{topology:?} {from}");
        }
    }
}
