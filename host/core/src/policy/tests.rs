use super::*;
use serde_json::json;

fn rule(id: &str, action: Action, matches: Match) -> Rule {
    Rule {
        id: id.to_owned(),
        action,
        matches,
        path_within: None,
        rate_limit: None,
        reason: None,
        approval: ApprovalTerms::default(),
        at: "t.yaml:1".to_owned(),
    }
}

fn named(pattern: &str) -> Match {
    Match { name: Some(pattern.to_owned()), ..Match::default() }
}

fn annotated(key: &str, value: bool) -> Match {
    let annotations = Map::from_iter([(key.to_owned(), Value::Bool(value))]);
    Match { annotations, ..Match::default() }
}

fn set(rules: Vec<Rule>) -> PolicySet {
    PolicySet::new(vec![Policy { name: "p".to_owned(), rules, ..Policy::default() }])
}

fn facts<'a>(
    tool: &'a str,
    declared: &'a Map<String, Value>,
    hints: &'a Annotations,
) -> CallFacts<'a> {
    CallFacts { tool, category: None, declared, hints, paths: Some(&[]), usage: Usage::default() }
}

fn says(set: &PolicySet, tool: &str, declared: &Value, hints: Annotations) -> String {
    let declared = declared.as_object().cloned().unwrap_or_default();
    let facts = CallFacts { category: Some("files"), ..facts(tool, &declared, &hints) };
    match set.decide(&facts, Scope::default()) {
        Verdict::Allow { rule } => format!("allow {}", rule.id),
        Verdict::Ask { rule, .. } => format!("ask {}", rule.id),
        Verdict::AuditOnly { rule } => format!("audit {}", rule.id),
        Verdict::Deny { rule, .. } => {
            format!("deny {}", rule.map_or_else(|| "-".to_owned(), |rule| rule.id))
        }
    }
}

#[test]
fn no_policy_and_no_match_deny() {
    let none = Annotations::default();
    assert_eq!(says(&PolicySet::default(), "a", &json!({}), none), "deny -");
    let only = set(vec![rule("r", Action::Allow, named("read-*"))]);
    assert_eq!(says(&only, "write-file", &json!({}), none), "deny -");
    assert_eq!(says(&only, "read-file", &json!({}), none), "allow r");
}

#[test]
fn the_first_match_wins_over_the_whole_concatenated_list() {
    let deny = rule("no", Action::Deny, named("write-file"));
    let all = rule("yes", Action::Allow, Match::default());
    let ask = rule("ask", Action::RequireApproval, named("exec-*"));
    let audit = rule("audit", Action::AuditOnly, named("b"));
    let policies = PolicySet::new(vec![
        Policy { name: "one".to_owned(), rules: vec![deny, ask, audit], ..Policy::default() },
        Policy { name: "two".to_owned(), rules: vec![all], ..Policy::default() },
    ]);
    for (tool, expected) in [
        ("write-file", "deny no"),
        ("exec-shell", "ask ask"),
        ("b", "audit audit"),
        ("bb", "allow yes"),
    ] {
        assert_eq!(says(&policies, tool, &json!({}), Annotations::default()), expected);
    }
}

#[test]
fn a_category_rule_matches_the_category_only() {
    let wanted = |text: &str| Match { category: Some(text.to_owned()), ..Match::default() };
    let none = Annotations::default();
    let files = set(vec![rule("r", Action::Allow, wanted("files"))]);
    let web = set(vec![rule("r", Action::Allow, wanted("web"))]);
    assert_eq!(says(&files, "a", &json!({}), none), "allow r");
    assert_eq!(says(&web, "a", &json!({}), none), "deny -");
}

#[test]
fn a_components_own_hint_never_relaxes() {
    let allow = set(vec![rule("r", Action::Allow, annotated("readOnlyHint", true))]);
    let claims = Annotations { read_only: Some(true), ..Annotations::default() };
    assert_eq!(says(&allow, "a", &json!({}), claims), "deny -");
    assert_eq!(says(&allow, "a", &json!({"readOnlyHint": true}), claims), "allow r");

    let deny = set(vec![
        rule("no", Action::Deny, annotated("destructiveHint", true)),
        rule("yes", Action::Allow, Match::default()),
    ]);
    let harmless = Annotations { destructive: Some(false), ..Annotations::default() };
    assert_eq!(says(&deny, "a", &json!({}), harmless), "deny no");
    assert_eq!(says(&deny, "a", &json!({"destructiveHint": false}), harmless), "allow yes");
}

#[test]
fn a_components_own_hint_tightens_even_against_the_operator() {
    let deny = set(vec![
        rule("no", Action::Deny, annotated("destructiveHint", true)),
        rule("yes", Action::Allow, Match::default()),
    ]);
    let admits = Annotations { destructive: Some(true), ..Annotations::default() };
    assert_eq!(says(&deny, "a", &json!({"destructiveHint": false}), admits), "deny no");
}

#[test]
fn naming_a_policy_can_only_narrow_whoever_names_it() {
    let policy = |name: &str, rule: Rule| Policy {
        name: name.to_owned(),
        rules: vec![rule],
        ..Policy::default()
    };
    let set = PolicySet::new(vec![
        policy("wide", rule("wide", Action::Allow, named("a"))),
        policy("same", rule("same", Action::Allow, named("a"))),
        policy("asks", rule("asks", Action::RequireApproval, Match::default())),
        policy("strict", rule("no", Action::Deny, Match::default())),
    ]);
    let (declared, hints) = (Map::new(), Annotations::default());
    for (tool, own, asked, strictness) in [
        ("a", ["same", "same"], None, 0),
        ("a", ["same", "wide"], Some("wide"), 0),
        ("a", ["same", "wide"], Some("asks"), 3),
        ("a", ["asks", "same"], Some("same"), 3),
        ("a", ["same", "asks"], None, 3),
        ("a", ["asks", "same"], Some("strict"), 4),
        ("a", ["same", "strict"], None, 4),
        ("a", ["gone", "same"], None, 4),
        ("a", ["same", "same"], Some("gone"), 4),
        ("b", ["same", "same"], None, 4),
    ] {
        let verdict = set
            .decide(&facts(tool, &declared, &hints), Scope { own: &own.map(str::to_owned), asked });
        assert_eq!(verdict.strictness(), strictness, "{tool} {own:?} {asked:?}: {verdict:?}");
    }
}

#[test]
fn of_two_that_ask_the_one_that_denies_silence_counts() {
    let asks = |name: &str, allow_on_timeout| {
        let approval = ApprovalTerms { timeout: None, allow_on_timeout };
        let rule = Rule { approval, ..rule(name, Action::RequireApproval, Match::default()) };
        Policy { name: name.to_owned(), rules: vec![rule], ..Policy::default() }
    };
    let set = PolicySet::new(vec![asks("mild", true), asks("strict", false)]);
    let (declared, hints) = (Map::new(), Annotations::default());
    let own = ["strict".to_owned()];
    let scope = Scope { own: &own, asked: None };
    let verdict = set.decide(&facts("a", &declared, &hints), scope);
    assert_eq!(verdict.rule().unwrap().id, "strict");
}

/// Decides by one rule that names `/docs`; with `paths` absent, whether a call could pass.
fn within_docs(action: Action, paths: Option<&[&str]>) -> u8 {
    let docs = Rule {
        path_within: Some(Folder::parse("docs").unwrap()),
        ..rule("docs", action, Match::default())
    };
    let other = if action.tightens() { Action::Allow } else { Action::Deny };
    let set = set(vec![docs, rule("rest", other, Match::default())]);
    let (declared, hints) = (Map::new(), Annotations::default());
    let paths: Option<Vec<String>> =
        paths.map(|paths| paths.iter().map(|path| (*path).to_owned()).collect());
    let facts = CallFacts { paths: paths.as_deref(), ..facts("a", &declared, &hints) };
    set.decide(&facts, Scope::default()).strictness()
}

#[test]
fn a_rule_that_relaxes_wants_every_path_within_and_one_that_tightens_any_within_or_above() {
    for (paths, allows, denies) in [
        (None, true, false),
        (Some(&[][..]), false, true),
        (Some(&["/docs/a"]), true, true),
        (Some(&["/docs", "/docs/a/b"]), true, true),
        (Some(&["/docs/a", "/etc"]), false, true),
        (Some(&["/documents"]), false, false),
        (Some(&["/", "/etc"]), false, true),
        (Some(&["/doc", "/etc"]), false, false),
        (Some(&["/docs/a", NOWHERE]), false, true),
        (Some(&[NOWHERE]), false, true),
    ] {
        assert_eq!(within_docs(Action::Allow, paths) == 0, allows, "{paths:?}");
        assert_eq!(within_docs(Action::AuditOnly, paths) == 1, allows, "{paths:?}");
        assert_eq!(within_docs(Action::Deny, paths) == 4, denies, "{paths:?}");
        assert_eq!(within_docs(Action::RequireApproval, paths) == 3, denies, "{paths:?}");
    }
}

#[test]
fn before_there_are_paths_one_that_a_person_would_be_asked_about_may_pass() {
    let asks = Rule {
        path_within: Some(Folder::parse("docs").unwrap()),
        ..rule("asks", Action::RequireApproval, Match::default())
    };
    let spent = Rule {
        rate_limit: Some(RateLimit { tokens_per_day: Some(1), cost_per_day_usd: None }),
        ..asks.clone()
    };
    let last = |action| rule("last", action, Match::default());
    let decided = |rules| {
        let (declared, hints) = (Map::new(), Annotations::default());
        let facts = CallFacts { paths: None, ..facts("a", &declared, &hints) };
        let Explanation { verdict, steps } = set(rules).explain(&facts, Scope::default());
        let mut matched = steps.iter().filter(|step| step.mismatch.is_none());
        assert!(matched.all(|step| Some(&step.rule) == verdict.rule()), "{verdict:?} {steps:?}");
        (verdict.strictness(), verdict.rule().map(|rule| rule.id.clone()))
    };
    for (rules, strictness, id) in [
        (vec![asks.clone()], 3, Some("asks")),
        (vec![asks.clone(), last(Action::Deny)], 3, Some("asks")),
        (vec![last(Action::Deny), asks.clone()], 4, Some("last")),
        (vec![asks.clone(), last(Action::RequireApproval)], 3, Some("asks")),
        (vec![asks, last(Action::AuditOnly)], 1, Some("last")),
        (vec![spent], 4, None),
    ] {
        assert_eq!(decided(rules), (strictness, id.map(str::to_owned)));
    }
}

#[test]
fn a_rule_with_a_limit_denies_from_then_on_and_allows_until_then() {
    let limit = |tokens_per_day, cost_per_day_usd| RateLimit { tokens_per_day, cost_per_day_usd };
    let usage = |tokens_today, cost_today_usd| Usage { tokens_today, cost_today_usd };
    for (limit, usage, reached) in [
        (limit(Some(10), None), usage(9, 99.0), false),
        (limit(Some(10), None), usage(10, 0.0), true),
        (limit(None, Some(1.0)), usage(99, 0.99), false),
        (limit(None, Some(1.0)), usage(0, 1.0), true),
        (limit(None, Some(1.0)), usage(0, f64::NAN), true),
        (limit(Some(10), Some(1.0)), usage(9, 0.5), false),
        (limit(Some(10), Some(1.0)), usage(10, 0.5), true),
        (limit(Some(10), Some(1.0)), usage(9, 1.5), true),
        (limit(Some(0), None), usage(0, 0.0), true),
        (limit(None, None), usage(0, 0.0), true),
    ] {
        let (declared, hints) = (Map::new(), Annotations::default());
        let facts = CallFacts { usage, ..facts("a", &declared, &hints) };
        for (action, expected) in [(Action::Deny, reached), (Action::Allow, !reached)] {
            let rule = Rule { rate_limit: Some(limit), ..rule("r", action, Match::default()) };
            let set = set(vec![rule]);
            let explanation = set.explain(&facts, Scope::default());
            let matched = explanation.steps[0].mismatch.is_none();
            assert_eq!(matched, expected, "{action:?} {limit:?} {usage:?}");
        }
    }
}

#[test]
fn an_explanation_names_every_rule_that_was_tried_list_by_list() {
    let policies = set(vec![
        rule("one", Action::Allow, named("x")),
        rule("two", Action::Deny, Match::default()),
        rule("three", Action::Allow, Match::default()),
    ]);
    let (declared, hints) = (Map::new(), Annotations::default());
    let own = ["p".to_owned()];
    let scope = Scope { own: &own, asked: Some("gone") };
    let explanation = policies.explain(&facts("a", &declared, &hints), scope);
    let steps: Vec<_> = explanation
        .steps
        .iter()
        .map(|step| (step.list, step.rule.id.as_str(), step.mismatch.as_deref()))
        .collect();
    let missed = Some("the name is `a`, not `x`");
    assert_eq!(
        steps,
        [
            (List::All, "one", missed),
            (List::All, "two", None),
            (List::Own, "one", missed),
            (List::Own, "two", None),
        ]
    );
    assert_eq!(explanation.verdict.rule().unwrap().id, "two");
}

#[test]
fn the_blocks_of_all_policies_hold_together() {
    let rates = |tool_calls_per_minute| Rates { tool_calls_per_minute, ..Rates::default() };
    let audit = AuditTerms { log_inputs: true, ..AuditTerms::default() };
    let screen = Screen { injection: Some(crate::screen::Action::Warn), ..Screen::default() };
    let set = PolicySet::new(vec![
        Policy { rates: rates(Some(9)), screen, ..Policy::default() },
        Policy { rates: rates(Some(5)), audit: audit.clone(), ..Policy::default() },
    ]);
    assert_eq!(set.rates(), rates(Some(5)));
    assert_eq!(set.audit(), &audit);
    assert!(!set.screens().is_off());
}
