//! The blocks beside a policy's rules: screens, rates, audit.
//!
//! A block that is there is on: what it leaves out gets the stricter of the likely meanings.

use crate::manifest::node::Node;
use crate::manifest::primitive::Document;
use crate::policy::{AuditTerms, Rates};
use crate::screen::{Action, Scanning, Screen, Validation, injection_patterns, secret_patterns};

/// Says where a document counts other patterns than there are: the number selects nothing.
pub(crate) fn notes(of: &Document) -> Vec<String> {
    // Counting makes the searches, which takes milliseconds.
    let counts: [(_, fn() -> usize); 2] = [
        (["prompt_injection", "pattern_count"], injection_patterns),
        (["secret_scanning", "patterns"], secret_patterns),
    ];
    let note = |([block, key], count): ([&str; 2], fn() -> usize)| {
        let node = of.spec.get(&[block, key])?;
        let wanted = of.spec.number(&[block, key])?;
        let (at, there) = (node.at.to_string(), count());
        (wanted != there as u64)
            .then(|| format!("{at}: `{block}.{key}` is {wanted}, and this version has {there}: the number selects nothing"))
    };
    counts.into_iter().filter_map(note).collect()
}

/// Returns what is searched for.
pub(crate) fn screen(spec: &Node) -> Screen {
    Screen {
        validation: spec.get(&["input_validation"]).map(validation).unwrap_or_default(),
        injection: spec.get(&["prompt_injection"]).and_then(injection),
        secrets: spec.get(&["secret_scanning"]).and_then(scanning),
    }
}

fn validation(block: &Node) -> Validation {
    Validation {
        bytes_max: block.number(&["max_size_bytes"]),
        null_bytes: block.flag(&["null_byte_detection"]) != Some(false),
        whitespace: block.flag(&["whitespace_analysis"]) == Some(true),
    }
}

fn injection(block: &Node) -> Option<Action> {
    match (block.text(&["detection"]), block.text(&["action"])) {
        (Some("none"), _) | (_, Some("ignore")) => None,
        (_, Some("warn")) => Some(Action::Warn),
        (_, Some("log-only")) => Some(Action::Log),
        _ => Some(Action::Block),
    }
}

fn scanning(block: &Node) -> Option<Scanning> {
    if block.flag(&["enabled"]) == Some(false) {
        return None;
    }
    let scope = block.text(&["scope"]);
    let action = match block.text(&["action"]) {
        Some("block") => Action::Block,
        Some("warn") => Action::Warn,
        _ => Action::Redact,
    };
    Some(Scanning { input: scope != Some("output"), output: scope != Some("input"), action })
}

/// Returns how much may happen.
pub(crate) fn rates(spec: &Node) -> Rates {
    spec.read(&["rate_limits"]).unwrap_or_default()
}

/// Returns what is recorded.
pub(crate) fn audit(spec: &Node) -> AuditTerms {
    let flag = |key: &str| spec.flag(&["audit", key]) == Some(true);
    AuditTerms {
        log_inputs: flag("log_inputs"),
        log_outputs: flag("log_outputs"),
        log_approvals: flag("log_approvals"),
        retention: spec.duration(&["audit", "retention"]),
        destinations: spec.read(&["audit", "destination"]).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::manifest::node;
    use crate::policy::Destination;

    fn spec(text: &str) -> Node {
        node::parse(Path::new("t.yaml"), text.as_bytes()).unwrap()
    }

    #[test]
    fn without_blocks_nothing_is_searched_bounded_or_kept() {
        let none = spec("rules: []");
        assert_eq!(screen(&none), Screen::default());
        assert_eq!(rates(&none), Rates::default());
        assert_eq!(audit(&none), AuditTerms::default());
    }

    #[test]
    fn a_block_that_says_little_gets_the_stricter_meaning() {
        let bare =
            screen(&spec("prompt_injection: {}\nsecret_scanning: {}\ninput_validation: {}\n"));
        let secrets = Some(Scanning { input: true, output: true, action: Action::Redact });
        let validation = Validation { null_bytes: true, ..Validation::default() };
        assert_eq!(bare, Screen { validation, injection: Some(Action::Block), secrets });
    }

    #[test]
    fn every_action_and_scope_is_read() {
        for (action, expected) in [
            ("block-and-log", Some(Action::Block)),
            ("warn", Some(Action::Warn)),
            ("log-only", Some(Action::Log)),
            ("ignore", None),
        ] {
            let text = format!("prompt_injection: {{detection: pattern, action: {action}}}");
            assert_eq!(screen(&spec(&text)).injection, expected, "{action}");
        }
        assert_eq!(screen(&spec("prompt_injection: {detection: none}")).injection, None);
        assert_eq!(screen(&spec("secret_scanning: {enabled: false}")).secrets, None);
        for (scope, input, output) in
            [("input", true, false), ("output", false, true), ("both", true, true)]
        {
            let text = format!("secret_scanning: {{scope: {scope}, action: block}}");
            let expected = Scanning { input, output, action: Action::Block };
            assert_eq!(screen(&spec(&text)).secrets, Some(expected), "{scope}");
        }
    }

    #[test]
    fn rates_and_audit_are_read() {
        let text = "rate_limits: {tool_calls_per_minute: 30, tokens_per_hour: 0, cost_per_day_usd: 2}\n\
                    audit: {log_inputs: true, log_outputs: false, log_approvals: true, retention: 90d, destination: syslog}";
        let spec = spec(text);
        let expected = Rates {
            tool_calls_per_minute: Some(30),
            tokens_per_hour: Some(0),
            cost_per_day_usd: Some(2.0),
        };
        assert_eq!(rates(&spec), expected);
        let expected = AuditTerms {
            log_inputs: true,
            log_outputs: false,
            log_approvals: true,
            retention: Some(Duration::from_secs(90 * 86_400)),
            destinations: BTreeSet::from([Destination::Syslog]),
        };
        assert_eq!(audit(&spec), expected);
    }
}
