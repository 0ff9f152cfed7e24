//! Simulated tools for demonstrations and tests of workflows: an outage, from the alarm to the
//! fix. Nothing outside is read or changed; every answer says that it is simulated, and follows
//! from its arguments alone, so that the same question has the same answer.

mod deploy;
mod work;

use deploy::{
    sim_argocd_fix_apply, sim_argocd_investigate, sim_argocd_status, sim_cost_regression,
};
use work::{sim_git_pr, sim_runtime_research, sim_teams_post, sim_ticket_read};

/// Numbers that follow from a text and nothing else (FNV-1a, then a step for each one).
pub(crate) struct Dice(u64);

impl Dice {
    /// Starts from the parts of a question; where one ends and the next begins counts.
    pub(crate) fn of(parts: &[&str]) -> Self {
        let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
        Self(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    /// The next number below `sides`, which is not zero.
    pub(crate) fn below(&mut self, sides: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(sides.max(1))).unwrap_or_default()
    }

    /// The next one of `choices`, which are not empty.
    pub(crate) fn pick(&mut self, choices: &[&str]) -> String {
        let count = u32::try_from(choices.len()).unwrap_or(u32::MAX);
        let at = usize::try_from(self.below(count)).unwrap_or_default();
        choices.get(at).copied().unwrap_or_default().to_owned()
    }

    /// The next commit: seven hex digits.
    pub(crate) fn commit(&mut self) -> String {
        format!("{:07x}", self.below(0x1000_0000))
    }
}

claw_tool::export! {
    /// SIMULATED, for demonstrations: the state of an Argo CD application. Made up from its
    /// arguments; nothing is asked.
    sim_argocd_status [read_only, idempotent, closed_world],
    /// SIMULATED, for demonstrations: why an Argo CD application is not well, and what would mend
    /// it. Made up from its arguments; nothing is looked at.
    sim_argocd_investigate [read_only, idempotent, closed_world],
    /// SIMULATED, for demonstrations: applies a fix to an Argo CD application. Nothing is changed.
    sim_argocd_fix_apply [destructive, closed_world],
    /// SIMULATED, for demonstrations: reads a ticket. Made up from its id; nothing is asked.
    sim_ticket_read [read_only, idempotent, closed_world],
    /// SIMULATED, for demonstrations: looks into what a service does while it runs. Made up from
    /// its arguments; nothing is looked at.
    sim_runtime_research [read_only, idempotent, closed_world],
    /// SIMULATED, for demonstrations: opens a pull request. Nothing is opened anywhere.
    sim_git_pr [additive, closed_world],
    /// SIMULATED, for demonstrations: posts to a Teams channel. Nothing is sent.
    sim_teams_post [additive, closed_world],
    /// SIMULATED, for demonstrations: whether a service has become dearer, and why. Made up from
    /// its arguments; nothing is measured.
    sim_cost_regression [read_only, idempotent, closed_world],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_question_has_the_same_answer_and_another_another() {
        let throws = |parts: &[&str]| {
            let mut dice = Dice::of(parts);
            [dice.below(1_000), dice.below(1_000), dice.below(1_000)]
        };
        assert_eq!(throws(&["shop", "prod"]), throws(&["shop", "prod"]));
        assert_ne!(throws(&["shop", "prod"]), throws(&["shopprod"]));
        assert_ne!(throws(&["shop"]), throws(&["shoq"]));
    }

    #[test]
    fn a_choice_is_always_one_of_those_there_are() {
        for seed in 0..100 {
            let picked = Dice::of(&[&seed.to_string()]).pick(&["a", "b"]);
            assert!(["a", "b"].contains(&picked.as_str()));
        }
        assert_eq!(Dice::of(&[]).pick(&[]), "");
    }
}
