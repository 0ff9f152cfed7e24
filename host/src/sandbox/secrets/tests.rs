use std::ffi::OsString;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawhost_core::egress::{EgressRules, HostPattern, HostRules};
use http::Request;
use http::header::HOST;

use super::*;
use crate::secrets::SecretSources;
use crate::state::{FolderEnv, SECRETS_FILE, SecretStore, StateDir};
use crate::upstream::http::CheckedRequest;

const VALUE: &str = "s3cr3t/value+1";

fn secrets() -> Secrets {
    Secrets::of_environment(|name| (name == "TOKEN").then(|| OsString::from(VALUE)))
}

fn grant(name: &str, injection: Injection) -> SecretGrant {
    let hosts = vec![HostPattern::parse("bound.test").unwrap()];
    SecretGrant { name: name.to_owned(), env: format!("ENV_{name}"), hosts, injection }
}

fn call() -> CallSecrets {
    CallSecrets::open(&[grant("TOKEN", Injection::HostBoundary)], &secrets()).unwrap()
}

fn held(call: &CallSecrets) -> String {
    call.env().next().unwrap().1.to_owned()
}

fn checked(url: &str, header: &str) -> CheckedRequest<()> {
    let rules = EgressRules::of(HostRules::Any);
    let request = Request::get(url).header("authorization", header).body(()).unwrap();
    CheckedRequest::new(Arc::new(rules), request).unwrap()
}

/// What is sent of a request with this header.
fn sent(
    call: &CallSecrets,
    url: &str,
    header: &str,
) -> Result<(String, Option<String>), SecretError> {
    let mut request = checked(url, header);
    call.fill(&mut request)?;
    let (_, request) = request.open();
    let (uri, header) = (request.uri(), request.headers().get("authorization"));
    let header = header.map(|value| value.to_str().unwrap().to_owned());
    Ok((uri.to_string(), header))
}

#[test]
fn a_bound_host_gets_the_value_and_the_guest_a_placeholder() {
    let call = call();
    let mine = held(&call);
    assert!(mine.starts_with(PLACEHOLDER) && !mine.contains(VALUE));
    let (_, header) = sent(&call, "https://bound.test/", &format!("Bearer {mine}")).unwrap();
    assert_eq!(header, Some(format!("Bearer {VALUE}")));
    let twice = format!("{mine},{mine}");
    let (_, header) = sent(&call, "https://bound.test/", &twice).unwrap();
    assert_eq!(header, Some(format!("{VALUE},{VALUE}")));
}

#[test]
fn basic_credentials_are_opened_and_closed_again() {
    let call = call();
    for credentials in ["user:{}", "u:{}", ":{}", "{}:x"] {
        let plain = credentials.replace("{}", &held(&call));
        let expected = STANDARD.encode(credentials.replace("{}", VALUE));
        for encoded in [STANDARD.encode(&plain), STANDARD.encode(&plain).replace('=', "")] {
            let header = format!("basic {encoded}");
            let (_, header) = sent(&call, "https://bound.test/", &header).unwrap();
            assert_eq!(header, Some(format!("Basic {expected}")));
        }
    }
    let (_, same) = sent(&call, "https://bound.test/", "Basic dTpw").unwrap();
    assert_eq!(same.as_deref(), Some("Basic dTpw"));
}

#[test]
fn path_and_query_carry_the_value_encoded() {
    let call = call();
    let url = format!("https://bound.test/bot{0}/x?key={0}&y", held(&call));
    let (uri, _) = sent(&call, &url, "x").unwrap();
    assert_eq!(uri, "/bots3cr3t%2Fvalue%2B1/x?key=s3cr3t%2Fvalue%2B1&y");
}

#[test]
fn the_name_of_a_host_is_never_a_value() {
    let call = {
        let mut grant = grant("TOKEN", Injection::HostBoundary);
        grant.hosts = vec![HostPattern::parse("*.bound.test").unwrap()];
        CallSecrets::open(&[grant], &secrets()).unwrap()
    };
    let url = format!("https://{}.bound.test/", held(&call));
    let mut request = checked(&url, &held(&call));
    call.fill(&mut request).unwrap();
    let (target, request) = request.open();
    assert_eq!(request.headers()[HOST], target.authority().as_str());
    assert_eq!(request.headers()["authorization"], VALUE);
}

#[test]
fn another_host_or_a_connection_in_the_clear_gets_nothing() {
    let call = call();
    let mine = held(&call);
    let basic = format!("Basic {}", STANDARD.encode(format!("u:{mine}")));
    for host in ["https://other.test", "http://bound.test", "https://bound.test.other.test"] {
        for header in [mine.as_str(), &basic] {
            let url = format!("{host}/?k={mine}");
            let (uri, header) = sent(&call, &url, header).unwrap();
            assert_eq!((uri, header), (format!("/?k={mine}"), None), "{host}");
        }
    }
}

#[test]
fn the_placeholder_of_another_call_stays_one() {
    let (call, other) = (call(), call());
    let foreign = held(&other);
    assert_ne!(held(&call), foreign);
    let (_, header) = sent(&call, "https://bound.test/", &foreign).unwrap();
    assert_eq!(header, Some(foreign));
}

#[test]
fn a_secret_that_is_nowhere_fails_the_request_that_needs_it_and_no_other() {
    let call = CallSecrets::open(&[grant("GONE", Injection::HostBoundary)], &secrets()).unwrap();
    assert!(sent(&call, "https://bound.test/", "plain").is_ok());
    let error = sent(&call, "https://bound.test/", &held(&call)).unwrap_err();
    assert!(matches!(error.why, NoSecret::Missing(_)), "{error}");
    let inside = CallSecrets::open(&[grant("GONE", Injection::Environment)], &secrets());
    let error = inside.unwrap_err();
    assert_eq!((error.kind, &error.data["secret"]), (ErrorKind::Sandbox, &"GONE".into()));
}

#[test]
fn only_values_go_to_native_processes() {
    let grants = [grant("TOKEN", Injection::HostBoundary), grant("TOKEN", Injection::Environment)];
    let call = CallSecrets::open(&grants, &secrets()).unwrap();
    assert_eq!(call.process_env().collect::<Vec<_>>(), [("ENV_TOKEN", VALUE)]);
}

#[test]
fn what_any_call_may_have_sent_is_found_in_answers_and_shown_by_nothing() {
    // This call itself sends nothing.
    let call = call();
    let mut echo = format!("you said {VALUE}").into_bytes();
    call.mask().unwrap().unwrap().mask(&mut echo);
    assert_eq!(echo, b"you said **************");
    assert!(!format!("{call:?}").contains(VALUE));
}

/// Secrets whose TOKEN has one value after the other, each for one look-up.
fn changing(values: &[&str]) -> Secrets {
    let values: Vec<OsString> = values.iter().rev().map(OsString::from).collect();
    let values = Mutex::new(values);
    Secrets::of_environment(move |_| values.lock().unwrap().pop())
}

#[test]
fn a_value_that_was_replaced_is_still_masked() {
    let secrets = changing(&["the-old-value", "the-new-value", "never-looked-at"]);
    drop(secrets.resolve("TOKEN").unwrap());
    let call = CallSecrets::open(&[grant("TOKEN", Injection::HostBoundary)], &secrets).unwrap();
    let mut echo = *b"the-old-value the-new-value";
    call.mask().unwrap().unwrap().mask(&mut echo);
    assert_eq!(&echo, b"************* *************");
    // A call has the same value for its whole time: what it sends is what is masked.
    let (_, header) = sent(&call, "https://bound.test/", &held(&call)).unwrap();
    assert_eq!(header.as_deref(), Some("the-new-value"));
}

#[test]
fn a_value_that_could_not_be_masked_is_not_sent() {
    let long = "x".repeat(SECRET_BOUNDARY_BYTES_MAX + 1);
    for (value, fits) in
        [("1234567", false), ("12345678", true), (&long[1..], true), (&long, false)]
    {
        let secrets = changing(&[value, value, value]);
        let call = CallSecrets::open(&[grant("TOKEN", Injection::HostBoundary)], &secrets).unwrap();
        match sent(&call, "https://bound.test/", &held(&call)) {
            Ok((_, header)) => assert!(fits && header.as_deref() == Some(value)),
            Err(error) => {
                assert!(!fits && matches!(error.why, NoSecret::Unusable(_)), "{error}")
            }
        }
        assert!(sent(&call, "https://bound.test/", "plain").is_ok());
    }
}

#[test]
fn where_a_value_cannot_be_read_no_answer_can_be_masked() {
    let state = tempfile::tempdir().unwrap();
    let store =
        SecretStore::new(&StateDir::open(Some(state.path()), &FolderEnv::default()).unwrap());
    std::fs::write(state.path().join(SECRETS_FILE), "damaged").unwrap();
    let secrets = Secrets::new(SecretSources { store: Some(store), ..SecretSources::default() });
    let call = CallSecrets::open(&[grant("TOKEN", Injection::HostBoundary)], &secrets).unwrap();
    assert!(matches!(call.mask().unwrap_err().why, NoSecret::Store(_)));
}
