//! The rules a second time, in the fewest lines, as an oracle for [`PolicySet::decide`].

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;

const NAMES: [&str; 4] = ["read-file", "read-folder", "write-file", "x"];
const PATTERNS: [&str; 6] = ["read-file", "read-*", "*", "write-file", "read-file*", "y"];
const CATEGORIES: [&str; 2] = ["files", "web"];
const HINTS: [&str; 3] = ["readOnlyHint", "destructiveHint", "custom"];
const FOLDERS: [&str; 3] = ["/", "/docs", "/docs/a"];
const PATHS: [&str; 9] =
    ["/", "/docs", "/docs/a", "/docs/a/b", "/DOCS/a", "/docsx", "docs/a", "a/b", NOWHERE];
const POLICIES: [&str; 3] = ["p0", "p1", "p2"];
/// Calls each random list of rules is asked about. With proptest's 256 lists, a run compares
/// 4,096 decisions; `PROPTEST_CASES=62500` makes it a million.
const CALLS: usize = 16;

/// A call in owned form.
#[derive(Debug, Clone)]
pub(super) struct Call {
    tool: &'static str,
    category: Option<&'static str>,
    declared: Map<String, Value>,
    hints: Annotations,
    paths: Option<Vec<String>>,
    usage: Usage,
    own: Option<&'static str>,
    asked: Option<&'static str>,
}

/// What is true of a call and a rule: yes, no, or nobody knows yet.
fn holds(rule: &Rule, call: &Call) -> bool {
    let tightens = matches!(rule.action, Action::Deny | Action::RequireApproval);
    let named = rule.matches.name.as_ref().is_none_or(|pattern| match pattern.split_once('*') {
        Some((start, _)) => call.tool.get(..start.len()) == Some(start),
        None => pattern == call.tool,
    });
    let filed =
        rule.matches.category.as_deref().is_none_or(|category| call.category == Some(category));
    let noted = rule.matches.annotations.iter().all(|(key, wanted)| {
        let (said, assumed) = match key.as_str() {
            "readOnlyHint" => (call.hints.read_only, Some(false)),
            "destructiveHint" => (call.hints.destructive, Some(true)),
            _ => (None, None),
        };
        let mut counts = vec![call.declared.get(key).cloned()];
        if tightens {
            counts.push(said.map(Value::Bool));
            counts.push(assumed.filter(|_| !call.declared.contains_key(key)).map(Value::Bool));
        }
        counts.contains(&Some(wanted.clone()))
    });
    let steps = |text: &str| {
        text.split('/').filter(|step| !step.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let within =
        |path: &str, folder: &str| path != NOWHERE && steps(path).starts_with(&steps(folder));
    let meets = |path: &str, folder: &str| {
        let (own, folder) = (steps(&path.to_lowercase()), steps(&folder.to_lowercase()));
        // What has no slash in front begins anywhere above.
        let begins = if path.starts_with('/') { 1 } else { folder.len().max(1) };
        let mut ends = (0..begins).map(|above| &folder[above..]);
        path == NOWHERE || ends.any(|end| own.starts_with(end) || end.starts_with(&own))
    };
    let placed = rule.path_within.as_ref().is_none_or(|folder| match &call.paths {
        None => !tightens,
        Some(paths) if tightens => {
            paths.is_empty() || paths.iter().any(|path| meets(path, folder.as_str()))
        }
        Some(paths) => !paths.is_empty() && paths.iter().all(|path| within(path, folder.as_str())),
    });
    let spent = rule.rate_limit.is_none_or(|limit| {
        let tokens = limit.tokens_per_day.is_some_and(|most| call.usage.tokens_today >= most);
        let cost = limit.cost_per_day_usd.is_some_and(|most| call.usage.cost_today_usd >= most);
        let none = limit.tokens_per_day.is_none() && limit.cost_per_day_usd.is_none();
        (tokens || cost || none) == tightens
    });
    named && filed && noted && placed && spent
}

/// Says what one list of rules does: 0 to 4 by strictness, and which rule it was.
fn judge(rules: &[(String, Rule)], call: &Call) -> (u8, Option<(String, String)>) {
    let strict = |rule: &Rule| match (rule.action, rule.approval.allow_on_timeout) {
        (Action::Allow, _) => 0,
        (Action::AuditOnly, _) => 1,
        (Action::RequireApproval, true) => 2,
        (Action::RequireApproval, false) => 3,
        (Action::Deny, _) => 4,
    };
    let at = rules.iter().position(|(_, rule)| holds(rule, call));
    // Of unknown paths, some may be those that a person is asked about.
    let asks = |rule: &Rule| {
        let anywhere = Rule { path_within: None, ..rule.clone() };
        call.paths.is_none() && rule.action == Action::RequireApproval && holds(&anywhere, call)
    };
    let earlier = rules.iter().take(at.unwrap_or(rules.len())).filter(|(_, rule)| asks(rule));
    let decides = earlier.chain(at.map(|at| &rules[at])).min_by_key(|(_, rule)| strict(rule));
    decides
        .map_or((4, None), |(policy, rule)| (strict(rule), Some((policy.clone(), rule.id.clone()))))
}

fn expected(policies: &[Policy], call: &Call) -> (u8, Option<(String, String)>) {
    let rules_of = |policy: &Policy| -> Vec<(String, Rule)> {
        policy.rules.iter().map(|rule| (policy.name.clone(), rule.clone())).collect()
    };
    let mut said = vec![judge(&policies.iter().flat_map(rules_of).collect::<Vec<_>>(), call)];
    for name in [call.own, call.asked].into_iter().flatten() {
        let policy = policies.iter().find(|policy| policy.name == name);
        said.push(policy.map_or((4, None), |policy| judge(&rules_of(policy), call)));
    }
    let strictest = said.iter().map(|(strict, _)| *strict).max().unwrap();
    said.into_iter().find(|(strict, _)| *strict == strictest).unwrap()
}

fn actual(verdict: &Verdict) -> (u8, Option<(String, String)>) {
    let rule = verdict.rule().map(|rule| (rule.policy.clone(), rule.id.clone()));
    let strict = match verdict {
        Verdict::Allow { .. } => 0,
        Verdict::AuditOnly { .. } => 1,
        Verdict::Ask { terms, .. } => 3 - u8::from(terms.allow_on_timeout),
        Verdict::Deny { .. } => 4,
    };
    (strict, rule)
}

prop_compose! {
    fn any_match()(
        name in proptest::option::of(proptest::sample::select(&PATTERNS[..])),
        category in proptest::option::weighted(0.3, proptest::sample::select(&CATEGORIES[..])),
        annotations in proptest::collection::btree_map(proptest::sample::select(&HINTS[..]), any::<bool>(), 0..2),
    ) -> Match {
        let annotations = annotations.into_iter().map(|(key, value)| (key.to_owned(), Value::Bool(value)));
        Match { name: name.map(str::to_owned), category: category.map(str::to_owned), annotations: annotations.collect() }
    }
}

prop_compose! {
    fn any_rule()(
        action in proptest::sample::select(&[Action::Allow, Action::AuditOnly, Action::Deny, Action::RequireApproval][..]),
        matches in any_match(),
        folder in proptest::option::weighted(0.3, proptest::sample::select(&FOLDERS[..])),
        limited in proptest::bool::weighted(0.2),
        tokens in proptest::option::of(0..3_u64),
        cost in proptest::option::of(0..3_u8),
        allow_on_timeout: bool,
    ) -> Rule {
        let rate_limit = RateLimit { tokens_per_day: tokens, cost_per_day_usd: cost.map(f64::from) };
        Rule {
            id: String::new(),
            action,
            matches,
            path_within: folder.map(|folder| Folder::parse(folder).unwrap()),
            rate_limit: limited.then_some(rate_limit),
            reason: None,
            approval: ApprovalTerms { timeout: None, allow_on_timeout },
            at: String::new(),
        }
    }
}

prop_compose! {
    fn any_call()(
        tool in proptest::sample::select(&NAMES[..]),
        category in proptest::option::of(proptest::sample::select(&CATEGORIES[..])),
        declared in proptest::collection::btree_map(proptest::sample::select(&HINTS[..]), any::<bool>(), 0..3),
        (read_only, destructive) in any::<(Option<bool>, Option<bool>)>(),
        paths in proptest::option::weighted(0.8, proptest::collection::vec(proptest::sample::select(&PATHS[..]), 0..3)),
        (tokens_today, cost) in (0..4_u64, 0..4_u8),
        own in proptest::option::weighted(0.3, proptest::sample::select(&POLICIES[..])),
        asked in proptest::option::weighted(0.3, proptest::sample::select(&POLICIES[..])),
    ) -> Call {
        Call {
            tool,
            category,
            declared: declared.into_iter().map(|(key, value)| (key.to_owned(), Value::Bool(value))).collect(),
            hints: Annotations { read_only, destructive, ..Annotations::default() },
            paths: paths.map(|paths| paths.into_iter().map(str::to_owned).collect()),
            usage: Usage { tokens_today, cost_today_usd: f64::from(cost) },
            own,
            asked,
        }
    }
}

/// Numbers the rules, so that it shows which one decided.
fn policies(lists: Vec<Vec<Rule>>) -> Vec<Policy> {
    let number = |(at, rule): (usize, Rule)| Rule { id: format!("r{at}"), ..rule };
    let named = lists.into_iter().zip(POLICIES).map(|(rules, name)| Policy {
        name: name.to_owned(),
        rules: rules.into_iter().enumerate().map(number).collect(),
        ..Policy::default()
    });
    named.collect()
}

/// Lists of rules, and calls to ask them about.
pub(super) fn any_case(calls: usize) -> impl Strategy<Value = (Vec<Vec<Rule>>, Vec<Call>)> {
    let lists = proptest::collection::vec(proptest::collection::vec(any_rule(), 0..6), 0..4);
    (lists, proptest::collection::vec(any_call(), calls))
}

/// Compares what is decided, and what is explained, with the reference.
pub(super) fn agrees(lists: Vec<Vec<Rule>>, calls: &[Call]) {
    let set = PolicySet::new(policies(lists));
    for call in calls {
        let facts = CallFacts {
            tool: call.tool,
            category: call.category,
            declared: &call.declared,
            hints: &call.hints,
            paths: call.paths.as_deref(),
            usage: call.usage,
        };
        let own = call.own.map(str::to_owned);
        let scope = Scope { own: own.as_slice(), asked: call.asked };
        let verdict = set.decide(&facts, scope);
        assert_eq!(actual(&verdict), expected(set.policies(), call), "{call:?}");
        assert_eq!(set.explain(&facts, scope).verdict, verdict);
    }
}

proptest! {
    #[test]
    fn deciding_agrees_with_the_reference_and_explaining_with_deciding(
        (lists, calls) in any_case(CALLS),
    ) {
        agrees(lists, &calls);
    }
}
