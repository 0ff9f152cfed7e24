//! What deciding costs where it costs most: a long list of rules, a long text to search.
//!
//! `cargo bench -p clawhost-core` measures the release build, without anything that runs guests.

use clawhost_core::catalog::Annotations;
use clawhost_core::policy::{
    Action, ApprovalTerms, CallFacts, Folder, Match, Policy, PolicySet, Rule, Scope, Usage, Verdict,
};
use clawhost_core::redact::Redactor;
use clawhost_core::screen::{self, Scanning, Screen, Screens};
use divan::Bencher;
use serde_json::{Value, json};

fn main() {
    divan::main();
}

/// A thousand rules of which the last one decides: what policy costs where it costs most.
#[divan::bench(name = "decide, 1,000 rules")]
fn decide(bencher: Bencher<'_, '_>) {
    let (policies, declared) = (thousand_rules(), serde_json::Map::new());
    let paths = ["/docs/a.txt".to_owned()];
    let facts = CallFacts {
        tool: "read-file",
        category: Some("files"),
        declared: &declared,
        hints: &Annotations::default(),
        paths: Some(&paths),
        usage: Usage::default(),
    };
    bencher.bench_local(|| {
        let verdict = policies.decide(divan::black_box(&facts), Scope::default());
        assert!(matches!(verdict, Verdict::Allow { .. }));
    });
}

/// A mebibyte searched for instructions and for every kind that there is: ordinary text, a page with
/// escapes, and texts made to be judged at every place.
#[divan::bench(name = "screen, 1 MiB", max_time = 5, args = ["text", "a page", "escapes", "numbers", "addresses"])]
fn screen(bencher: Bencher<'_, '_>, kind: &str) {
    let scanning = Scanning { input: true, output: true, action: screen::Action::Redact };
    let asked = Screen {
        injection: Some(screen::Action::Block),
        secrets: Some(scanning),
        ..Screen::default()
    };
    let mut screens = Screens::new(std::iter::once(("p", &asked)));
    let kinds = ["pii", "internal"].iter().flat_map(|word| screen::kinds_of(word)).collect();
    let boundaries = vec![screen::Boundary::Arguments];
    let filter = screen::Filter { kinds, boundaries, action: screen::Action::Warn };
    screens.add_filter("f", &filter);
    let unit = match kind {
        "text" => "The quick brown fox: jumps = over 13 lazy dogs.\n",
        "a page" => r#"<a href="/a?q=a%20b&amp;c=d">fish &amp; chips</a>\n"#,
        "escapes" => r"%5c%26amp;%25&#37;41\u0026amp;%\%255c&amp;#92;%2526\x41",
        "numbers" => "4111 1 GB29 202 555 1.2.3 ",
        _ => "a.internal.b@c.d:1:f::2 ",
    };
    let arguments = json!({"content": unit.repeat((1 << 20) / unit.len())});
    bencher
        .bench_local(|| assert!(screens.input(divan::black_box(&arguments)).findings.is_empty()));
}

/// A mebibyte searched for a secret: a text without escapes, a page as the web has them, and a
/// text made to be read in as many ways as there are.
#[divan::bench(name = "redact, 1 MiB", max_time = 5, args = ["plain text", "a page", "hostile"])]
fn redact(bencher: Bencher<'_, '_>, kind: &str) {
    let redactor = Redactor::new([("TOKEN", b"s3cr3t-value".as_slice())]).unwrap_or_default();
    let unit = match kind {
        "plain text" => "The quick brown fox jumps over 13 lazy dogs. ",
        "a page" => {
            r#"<a href="/a?q=a%20b&amp;c=d">fish &amp; chips</a> "
ä" and more of it "#
        }
        _ => r"%5c%26amp;%25&#37;41\u0026amp;%\%255c&amp;#92;%2526\x41",
    };
    let text = unit.repeat((1 << 20) / unit.len());
    bencher.bench_local(|| assert_eq!(redactor.text(divan::black_box(&text)).len(), text.len()));
}

/// Every part of a rule takes its turn at being the one that does not match.
fn thousand_rules() -> PolicySet {
    let rules = (0..1_000).map(|at| {
        let other = || Some(format!("other-{at}"));
        let (matches, folder) = match at % 4 {
            _ if at == 999 => (Match::default(), None),
            0 => (Match { name: other(), ..Match::default() }, None),
            1 => (Match { category: other(), ..Match::default() }, None),
            2 => {
                let annotations = std::iter::once(("readOnlyHint".to_owned(), Value::Bool(true)));
                (Match { annotations: annotations.collect(), ..Match::default() }, None)
            }
            _ => (Match::default(), Folder::parse(&format!("/docs/{at}")).ok()),
        };
        Rule {
            id: format!("r{at}"),
            action: Action::Allow,
            matches,
            path_within: folder,
            rate_limit: None,
            reason: None,
            approval: ApprovalTerms::default(),
            at: String::new(),
        }
    });
    let policy = Policy { name: "p".to_owned(), rules: rules.collect(), ..Policy::default() };
    PolicySet::new(vec![policy])
}
