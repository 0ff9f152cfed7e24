//! What becomes of tools that a server describes, and describes otherwise.

use super::*;

fn pins(mode: PinMode) -> Pins {
    Pins::new(Database::in_memory(&[("pins", MIGRATIONS)]).unwrap(), None, mode)
}

async fn judged(pins: &Pins, definition: &str) -> Verdict {
    pins.judge("s", vec![seen("t", definition)]).await.remove(0)
}

fn seen(tool: &str, definition: &str) -> Seen {
    let digest = digest::of_bytes(definition.as_bytes());
    Seen { tool: tool.to_owned(), definition: definition.to_owned(), digest }
}

async fn accept(pins: &Pins) -> usize {
    pins.accept(pins.list(Some("s".to_owned()), None).await.unwrap()).await.unwrap()
}

#[tokio::test]
async fn the_first_sight_counts_and_a_change_waits_until_it_is_accepted() {
    let pins = pins(PinMode::FirstUse);
    assert_eq!(judged(&pins, "a").await, Verdict::Trusted);
    assert_eq!(judged(&pins, "a").await, Verdict::Accepted);
    assert_eq!(judged(&pins, "b").await, Verdict::Changed { is_new: true });
    assert_eq!(judged(&pins, "b").await, Verdict::Changed { is_new: false });
    assert_eq!(judged(&pins, "a").await, Verdict::Accepted, "it came back");
    assert_eq!(judged(&pins, "b").await, Verdict::Changed { is_new: true });
    assert_eq!(accept(&pins).await, 1);
    assert_eq!(judged(&pins, "b").await, Verdict::Accepted);
    assert_eq!(judged(&pins, "a").await, Verdict::Changed { is_new: true });
}

#[tokio::test]
async fn what_was_accepted_stays_it_where_another_host_is_told_something_else() {
    let pins = pins(PinMode::FirstUse);
    judged(&pins, "mine").await;
    judged(&pins, "another's").await;
    let kept = pins.list(None, None).await.unwrap().remove(0);
    assert_eq!(kept.state(), PinState::Changed);
    assert!(!kept.is_due(&digest::of_bytes(b"mine"), false));
}

#[tokio::test]
async fn of_two_hosts_that_wait_neither_writes_over_the_other_until_somebody_decides() {
    let pins = pins(PinMode::Require);
    let is_due = async |says: &str, waits| {
        let kept = pins.list(None, None).await.unwrap().remove(0);
        kept.is_due(&digest::of_bytes(says.as_bytes()), waits)
    };
    judged(&pins, "a").await;
    judged(&pins, "b").await;
    assert!(!is_due("a", true).await && !is_due("b", true).await);
    assert_eq!(accept(&pins).await, 1);
    assert!(is_due("b", true).await && !is_due("b", false).await);
    // Nothing waits now but this, so that it can be accepted next.
    assert!(is_due("a", true).await);
    judged(&pins, "a").await;
    assert!(!is_due("a", true).await && !is_due("b", false).await);
    assert_eq!(accept(&pins).await, 1);
    assert!(is_due("a", true).await && is_due("b", false).await);
}

#[tokio::test]
async fn where_it_is_required_nothing_is_served_unaccepted() {
    let pins = pins(PinMode::Require);
    assert_eq!(judged(&pins, "a").await, Verdict::New);
    assert!(Verdict::New.reason("s").unwrap().contains("clawhost pins accept s"));
    assert_eq!(accept(&pins).await, 1);
    assert_eq!(judged(&pins, "a").await, Verdict::Accepted);
}

#[tokio::test]
async fn only_what_the_operator_saw_is_accepted() {
    let pins = pins(PinMode::Require);
    judged(&pins, "a").await;
    let seen = pins.list(None, None).await.unwrap();
    assert_eq!(seen[0].state(), PinState::New);
    judged(&pins, "b").await;
    assert_eq!(pins.accept(seen).await.unwrap(), 0);
    assert_eq!(judged(&pins, "b").await, Verdict::New);
}

#[tokio::test]
async fn a_server_that_names_ever_new_tools_fills_nothing() {
    let pins = pins(PinMode::FirstUse);
    let all = (0..PINS_PER_SERVER_MAX + 1).map(|name| seen(&name.to_string(), "d")).collect();
    let verdicts = pins.judge("s", all).await;
    assert_eq!(verdicts.last(), Some(&Verdict::Full));
    assert_eq!(verdicts.iter().filter(|one| **one == Verdict::Full).count(), 1);
    assert!(Verdict::Full.reason("s").unwrap().contains("clawhost pins forget s"));
}

#[tokio::test]
async fn what_is_forgotten_makes_room_and_is_seen_for_the_first_time_again() {
    let pins = pins(PinMode::FirstUse);
    let named =
        |names: std::ops::Range<i64>| names.map(|name| seen(&name.to_string(), "d")).collect();
    let verdicts = pins.judge("s", named(0..PINS_PER_SERVER_MAX)).await;
    assert!(!verdicts.contains(&Verdict::Full));
    assert_eq!(pins.judge("t", named(0..1)).await, [Verdict::Trusted]);
    assert_eq!(judged(&pins, "a").await, Verdict::Full);
    let of = |tool: Option<&str>| pins.list(Some("s".to_owned()), tool.map(str::to_owned));
    let one = of(Some("0")).await.unwrap();
    assert_eq!(pins.forget(one.clone()).await.unwrap(), 1);
    assert_eq!(pins.forget(one).await.unwrap(), 0, "it is gone");
    assert_eq!(judged(&pins, "a").await, Verdict::Trusted);
    let rest = of(None).await.unwrap();
    assert_eq!(pins.forget(rest.clone()).await.unwrap(), rest.len());
    assert_eq!(judged(&pins, "b").await, Verdict::Trusted);
    // Another server's stay.
    assert_eq!(pins.judge("t", named(0..1)).await, [Verdict::Accepted]);
}

#[tokio::test]
async fn a_server_of_many_words_fills_nothing_either() {
    let pins = pins(PinMode::FirstUse);
    let long = "x".repeat(usize::try_from(PINS_BYTES_PER_SERVER_MAX / 4).unwrap());
    let of = |names: &[&str], text: &str| names.iter().map(|name| seen(name, text)).collect();
    let full = |verdicts: Vec<Verdict>| verdicts.iter().filter(|v| **v == Verdict::Full).count();
    assert_eq!(full(pins.judge("s", of(&["a", "b", "c"], &long)).await), 1);
    // Another server's are counted apart, and what is kept stays what it is.
    assert_eq!(pins.judge("t", of(&["a"], &long)).await, [Verdict::Trusted]);
    assert_eq!(pins.judge("s", of(&["a"], &long)).await, [Verdict::Accepted]);
    assert_eq!(full(pins.judge("s", of(&["a"], &format!("{long}!"))).await), 1);
}

#[tokio::test]
async fn two_hosts_of_which_each_has_one_of_two_tools_accepted_take_no_turns() {
    let pins = pins(PinMode::Require);
    let told = async |pins: &Pins, says: &str| {
        pins.judge("s", vec![seen("t", says), seen("u", says)]).await
    };
    for (says, tool) in [("a", "t"), ("b", "u")] {
        told(&pins, says).await;
        let one = pins.list(None, Some(tool.to_owned())).await.unwrap();
        assert_eq!(pins.accept(one).await.unwrap(), 1);
    }
    let changed = |is_new| Verdict::Changed { is_new };
    assert_eq!(told(&pins.again(), "a").await, [Verdict::Accepted, changed(true)]);
    let kept = pins.list(None, None).await.unwrap();
    assert_eq!(told(&pins.again(), "b").await, [changed(false), Verdict::Accepted]);
    assert_eq!(told(&pins.again(), "a").await, [Verdict::Accepted, changed(false)]);
    assert_eq!(pins.list(None, None).await.unwrap(), kept);
    // What a server says anew is put there whatever waits.
    assert_eq!(told(&pins, "b").await, [changed(false), Verdict::Accepted]);
    assert_ne!(pins.list(None, None).await.unwrap(), kept);
}

#[tokio::test]
async fn who_only_looks_accepts_nothing() {
    let pins = pins(PinMode::FirstUse);
    let looking = pins.clone().only_looking(true);
    assert_eq!(judged(&looking, "a").await, Verdict::Trusted);
    assert_eq!(pins.list(None, None).await.unwrap(), []);
    assert_eq!(judged(&pins, "b").await, Verdict::Trusted);
    assert_eq!(judged(&looking, "a").await, Verdict::Changed { is_new: true });
    assert_eq!(pins.list(None, None).await.unwrap()[0].offered, "b");
}

#[tokio::test]
async fn who_only_looks_is_told_while_another_host_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pins.db");
    let database = Database::open(&path, &[("pins", MIGRATIONS)]).unwrap();
    let pins = Pins::new(database, None, PinMode::FirstUse);
    assert_eq!(judged(&pins, "a").await, Verdict::Trusted);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let looking = pins.only_looking(true);
    assert_eq!(judged(&looking, "a").await, Verdict::Accepted);
    assert_eq!(judged(&looking, "b").await, Verdict::Changed { is_new: true });
    let new = looking.judge("another", vec![seen("t", "a")]).await;
    assert_eq!(new, [Verdict::Trusted]);
}

#[tokio::test]
async fn names_that_are_alike_become_one() {
    let (first, later) = MIGRATIONS.split_first().unwrap();
    let mut db = Connection::open_in_memory().unwrap();
    db.execute_batch(first).unwrap();
    for tool in ["a_b", "a.b", "A b", "other"] {
        let tool = seen(tool, "d");
        insert(&db, "s", &tool, true, 0).unwrap();
    }
    later.iter().for_each(|step| db.execute_batch(step).unwrap());
    let text = "SELECT tool FROM pins ORDER BY tool";
    let read = |db: &mut Connection| -> rusqlite::Result<Vec<String>> {
        db.prepare(text)?.query_map([], |row| row.get(0))?.collect()
    };
    assert_eq!(read(&mut db).unwrap(), ["a-b", "other"]);
}
