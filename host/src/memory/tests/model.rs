//! A store against a list that does the same, and any text as a query.

use std::sync::atomic::Ordering;

use clawhost_core::manifest::StoreKind;
use proptest::prelude::*;

use super::*;

/// One step of a program that a store and its model run alike.
#[derive(Debug, Clone)]
enum Step {
    Store(usize, Vec<(Option<u8>, u8)>),
    Pass(i64),
    Compact(usize),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let new = (proptest::option::of(0..4_u8), 0..6_u8);
    prop_oneof![
        6 => (0..2_usize, proptest::collection::vec(new, 1..4)).prop_map(|(who, new)| Step::Store(who, new)),
        3 => (0..60_i64).prop_map(Step::Pass),
        2 => (0..2_usize).prop_map(Step::Compact),
        1 => Just(Step::Restart),
    ]
}

fn any_plan() -> impl Strategy<Value = StorePlan> {
    let kinds = prop_oneof![Just(StoreKind::KeyValue), Just(StoreKind::Conversation)];
    let ages = proptest::option::of(50..200_i64);
    let counts = || proptest::option::of(1..8_u64);
    (kinds, ages, counts(), counts()).prop_map(|(kind, max_age_ms, max_entries, compacts_to)| {
        StorePlan { max_age_ms, max_entries, compacts_to, ..plan(kind) }
    })
}

/// What a part holds, as a list in the order of writing: key, word and time.
#[derive(Debug, Default, Clone)]
struct Model(Vec<(Option<u8>, u8, i64)>);

impl Model {
    fn store(&mut self, plan: &StorePlan, new: &[(Option<u8>, u8)], now: i64) {
        for (key, word) in new {
            if plan.kind.replaces() && key.is_some() {
                self.0.retain(|old| old.0 != *key);
            }
            self.0.push((*key, *word, now));
        }
        self.retain(plan, plan.max_entries, now);
    }

    fn retain(&mut self, plan: &StorePlan, most: Option<u64>, now: i64) {
        self.0.retain(|old| plan.max_age_ms.is_none_or(|age| old.2 >= now - age));
        let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap());
        self.0.drain(..self.0.len().saturating_sub(most));
    }

    fn compact(&mut self, plan: &StorePlan, now: i64) {
        self.retain(plan, plan.max_entries, now);
        self.retain(plan, plan.compacts_to, now);
    }

    fn seen(&self, plan: &StorePlan, now: i64) -> Self {
        let mut seen = self.clone();
        seen.retain(plan, None, now);
        seen
    }
}

fn named(entries: Vec<Entry>) -> Vec<(Option<u8>, u8, i64)> {
    let number = |text: &str| text[1..].parse().unwrap();
    let row = |entry: Entry| {
        let word = number(entry.content.as_str().unwrap());
        (entry.key.as_deref().map(number), word, entry.timestamp_ms)
    };
    entries.into_iter().map(row).collect()
}

async fn check(stores: &Stores, who: &Scope, model: &Model) {
    let query = |kind| stores.memory.query(who, "s", Query { kind, top_k: Some(1_000) });
    assert_eq!(named(query(any_time().kind).await.unwrap().entries), model.0);
    for n in 0..6_u8 {
        let found = named(query(QueryKind::Key { key: format!("k{n}") }).await.unwrap().entries);
        let of_key: Vec<_> = model.0.iter().filter(|old| old.0 == Some(n)).copied().collect();
        assert_eq!(found, of_key);
        let text = format!("w{n}");
        let mut found = named(query(QueryKind::Semantic { text }).await.unwrap().entries);
        let mut with_word: Vec<_> = model.0.iter().filter(|old| old.1 == n).copied().collect();
        found.sort_unstable();
        with_word.sort_unstable();
        assert_eq!(found, with_word);
    }
}

async fn run(plan: StorePlan, steps: Vec<Step>) {
    let who = [me(), scope("other", "me")];
    let mut stores = Stores::new(std::slice::from_ref(&plan));
    let mut models = [Model::default(), Model::default()];
    for step in steps {
        let now = stores.time.load(Ordering::SeqCst);
        match step {
            Step::Store(index, new) => {
                let text = |(key, word): &(Option<u8>, u8)| {
                    entry(key.map(|key| format!("k{key}")).as_deref(), format!("w{word}"))
                };
                let entries: Vec<NewEntry> = new.iter().map(text).collect();
                stores.memory.store(&who[index], "s", entries).await.unwrap();
                models[index].store(&plan, &new, now);
                models[1 - index].retain(&plan, None, now);
            }
            Step::Pass(ms) => stores.pass(ms),
            Step::Compact(index) => {
                let done = stores.memory.compact(&who[index], "s").await.unwrap();
                let before = models[index].0.len() as u64;
                models[index].compact(&plan, now);
                let after = models[index].0.len() as u64;
                assert_eq!(done, Compacted { before, after });
            }
            Step::Restart => {
                stores = stores.restarted();
                stores.time.store(now, Ordering::SeqCst);
            }
        }
        let now = stores.time.load(Ordering::SeqCst);
        for (who, model) in who.iter().zip(&models) {
            check(&stores, who, &model.seen(&plan, now)).await;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_store_does_what_a_list_does(plan in any_plan(), steps in proptest::collection::vec(step(), 1..20)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(plan, steps));
    }

    #[test]
    fn every_text_is_a_query_and_finds_the_entry_it_is(text in "\\PC{0,40}|[\"'*(){}:^a b\\-+,.\0\\\\]{0,40}") {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let stores = Stores::new(&[plan(StoreKind::Semantic)]);
            stores.put(None, text.as_str()).await;
            let found = stores.search(&text).await;
            // Text of symbols alone has no words.
            assert!(found.len() == 1 || !text.chars().any(|c| c.is_ascii_alphanumeric()));
        });
    }
}

/// The index knows an older Unicode than this host, and takes the sign for a letter.
#[tokio::test]
async fn a_word_with_a_sign_that_the_index_does_not_know_finds_the_entry_it_is() {
    for word in ["a\u{1fa60}", "\u{1fa60}"] {
        let stores = Stores::new(&[plan(StoreKind::Semantic)]);
        stores.put(None, word).await;
        assert_eq!(stores.search(word).await.len(), 1, "{word}");
    }
}
