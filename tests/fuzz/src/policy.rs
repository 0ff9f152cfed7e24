//! Policy decisions: they agree with the reference, which says the rules in the fewest lines.

use clawhost_core::catalog::Annotations;
use clawhost_core::policy::*;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

#[allow(dead_code, unused_imports, reason = "its own test uses the rest")]
#[path = "../../../host/core/src/policy/reference.rs"]
mod reference;

/// Calls that each list of rules is asked about.
const CALLS: usize = 4;

/// The seed of a case.
const SEED_BYTES: usize = 32;

/// Takes `data` for the seed that policies and calls are drawn from: a generator that hands the
/// bytes themselves to each choice runs dry, as every optional value halves them.
pub fn run(data: &[u8]) {
    let mut seed = [0; SEED_BYTES];
    seed.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    if let Ok(case) = reference::any_case(CALLS).new_tree(&mut runner) {
        let (lists, calls) = case.current();
        reference::agrees(lists, &calls);
    }
}
