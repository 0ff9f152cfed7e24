//! Registries that answer well, badly, slowly and not at all, each on a thread of its own.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;

use clawhost_core::uri::ClawUri;
use serde_json::json;

use super::*;
use crate::registry::FileDocuments;

const DOCUMENT: &str = "a document";
const BASE: &str = "/v1/n/greet/1.0.0";
/// Long enough for anything on this machine that is going to happen at all.
const PLENTY: Duration = Duration::from_secs(20);
/// Short enough to wait for.
const BRIEF: Duration = Duration::from_millis(60);

/// What a registry does with one path.
#[derive(Clone)]
enum Answer {
    Bytes(Vec<u8>),
    /// The beginning of an answer, then nothing until the client is gone.
    Begin(&'static str),
    Close,
    /// An answer that never ends.
    Endless,
    Moved(String),
}

struct Registry {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    fn new(answers: impl IntoIterator<Item = (&'static str, Answer)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let answers: BTreeMap<&str, Answer> = answers.into_iter().collect();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let head: Vec<String> = lines
                    .by_ref()
                    .map_while(|line| line.ok().filter(|line| !line.is_empty()))
                    .collect();
                let Some(path) = head.first().and_then(|line| line.split(' ').nth(1)) else {
                    continue;
                };
                seen.lock().unwrap().push(path.to_owned());
                let answer = answers.get(path.trim_start_matches(BASE)).cloned();
                // A client that has had enough closes: that ends the answer.
                let _ = give(&mut stream, answer);
            }
        });
        Self { address, asked }
    }

    /// One that has `index` and the document.
    fn with(index: &serde_json::Value) -> Self {
        Self::new([("", Answer::Bytes(index.to_string().into())), ("/document", document())])
    }

    /// One that has nothing.
    fn empty() -> Self {
        Self::new([])
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn settings(&self, name: &str) -> RegistrySettings {
        RegistrySettings { name: name.to_owned(), url: format!("http://{}/v1", self.address) }
    }
}

fn give(stream: &mut std::net::TcpStream, answer: Option<Answer>) -> io::Result<()> {
    match answer {
        None => stream.write_all(
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        )?,
        Some(Answer::Bytes(bytes)) => {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                bytes.len()
            );
            stream.write_all(head.as_bytes())?;
            stream.write_all(&bytes)?;
        }
        Some(Answer::Begin(head)) => {
            stream.write_all(head.as_bytes())?;
            std::io::copy(stream, &mut std::io::sink())?;
        }
        Some(Answer::Endless) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
            loop {
                stream.write_all(&[b'x'; 1024])?;
            }
        }
        Some(Answer::Moved(to)) => {
            let head = format!(
                "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
            stream.write_all(head.as_bytes())?;
        }
        Some(Answer::Close) => {}
    }
    Ok(())
}

fn document() -> Answer {
    Answer::Bytes(DOCUMENT.into())
}

fn part(text: &str) -> serde_json::Value {
    json!({"digest": digest::of_bytes(text.as_bytes()), "bytes": text.len()})
}

fn index() -> serde_json::Value {
    json!({"namespace": "n", "name": "greet", "version": "1.0.0", "kind": "Tool", "document": part(DOCUMENT)})
}

fn with(key: &str, value: serde_json::Value) -> serde_json::Value {
    let mut index = index();
    index[key] = value;
    index
}

fn uri(text: &str) -> RegistryUri {
    match ClawUri::parse(text).unwrap() {
        ClawUri::Registry(uri) => uri,
        ClawUri::Local(_) => panic!("{text} is local"),
    }
}

fn ask_within(times: Times, list: &[(&str, &Registry)]) -> Result<Package, RegistryError> {
    let settings: Vec<_> = list.iter().map(|(name, registry)| registry.settings(name)).collect();
    let mut registries = Registries::new(&settings, HttpClient::system()).unwrap();
    registries.times = times;
    registries.beside(&FileDocuments).registry(&uri("claw://registry/n/greet@1.0.0"))
}

fn ask(list: &[(&str, &Registry)]) -> Result<Package, RegistryError> {
    ask_within(Times { read: PLENTY, load: PLENTY }, list)
}

/// Returns what the registry did wrong.
fn failure(registry: &Registry) -> String {
    match ask(&[("bad", registry)]).unwrap_err() {
        RegistryError::Failed { registry, reason } => {
            assert_eq!(registry, "bad");
            reason
        }
        error => panic!("{error}"),
    }
}

#[test]
fn registries_are_asked_in_order_and_the_first_that_has_it_answers() {
    let component = "code";
    let (empty, first, second) = (
        Registry::empty(),
        Registry::new([
            ("", Answer::Bytes(with("component", part(component)).to_string().into())),
            ("/document", document()),
            ("/component", Answer::Bytes(component.into())),
        ]),
        Registry::with(&index()),
    );
    let package = ask(&[("empty", &empty), ("first", &first), ("second", &second)]).unwrap();
    assert_eq!((package.registry.as_str(), &*package.document), ("first", DOCUMENT.as_bytes()));
    assert_eq!(package.digest, digest::of_bytes(DOCUMENT.as_bytes()));
    assert_eq!(&*package.component.unwrap().bytes, component.as_bytes());
    assert_eq!(empty.asked(), [BASE]);
    assert_eq!(
        first.asked(),
        [BASE.to_owned(), format!("{BASE}/document"), format!("{BASE}/component")]
    );
    assert_eq!(second.asked(), Vec::<String>::new());
}

#[test]
fn what_nobody_has_names_who_was_asked() {
    let (one, two) = (Registry::empty(), Registry::empty());
    let error = ask(&[("one", &one), ("two", &two)]).unwrap_err();
    assert_eq!(error, RegistryError::NotFound("one, two".to_owned()));
    assert_eq!(ask(&[]).unwrap_err(), RegistryError::NotConfigured);
}

#[test]
fn a_registry_that_fails_ends_the_search() {
    let good = Registry::with(&index());
    let bad = Registry::new([("", Answer::Begin("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"))]);
    let error = ask(&[("bad", &bad), ("good", &good)]).unwrap_err();
    assert!(error.to_string().contains("the registry `bad` answers 500"), "{error}");
    assert_eq!(good.asked(), Vec::<String>::new());
}

#[test]
fn what_a_refusal_says_is_shown_briefly_and_safely() {
    assert_eq!(said(br#"{"error": {"message": "no \u001b[2J"}}"#).unwrap(), ": no \\u{1b}[2J");
    let long = json!({"error": {"message": "x".repeat(4_000)}}).to_string();
    assert!(said(long.as_bytes()).unwrap().len() < 600);
    for body in ["", "<html>", "{}", r#"{"error": {"message": 7}}"#] {
        assert_eq!(said(body.as_bytes()), None);
    }
}

#[test]
fn what_is_not_what_the_index_says_is_refused() {
    for (registry, says) in [
        (Registry::with(&with("name", json!("other"))), "another address"),
        (Registry::with(&with("document", part("another document"))), "something else"),
        (Registry::with(&with("document", part("a documenT"))), "something else"),
        // The body is longer than promised, and no more of it is read.
        (Registry::with(&with("document", part("a doc"))), "longer than 5 bytes"),
        (
            Registry::with(&with(
                "document",
                json!({"digest": format!("sha256:{:064}", 0), "bytes": 1_u64 << 40}),
            )),
            "at most 1048576 are read",
        ),
        (
            Registry::with(&with(
                "component",
                json!({"digest": format!("sha256:{:064}", 0), "bytes": u64::MAX}),
            )),
            "more than is left",
        ),
        (Registry::with(&with("component", part("absent"))), "does not have it"),
        (Registry::new([("", Answer::Bytes(vec![b'{'; 100_000]))]), "longer than 8192 bytes"),
        (Registry::new([("", Answer::Endless)]), "longer than 8192 bytes"),
        (Registry::new([("", Answer::Bytes(b"<html>".to_vec()))]), "no index"),
        (Registry::new([("", Answer::Close)]), "the answer ended early"),
    ] {
        let reason = failure(&registry);
        assert!(reason.contains(says), "{reason}");
    }
}

#[test]
fn redirects_are_not_followed() {
    let elsewhere = Registry::with(&index());
    let moved = Registry::new([("", Answer::Moved(format!("http://{}{BASE}", elsewhere.address)))]);
    assert!(failure(&moved).contains("redirects are not followed"));
    assert_eq!(elsewhere.asked(), Vec::<String>::new());
}

#[test]
fn a_registry_that_cannot_be_reached_is_named() {
    // Bound and dropped: nobody listens there.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = Registry { address, asked: Arc::default() };
    let reason = failure(&gone);
    assert!(reason.contains("the host does not answer"), "{reason}");
}

#[test]
fn a_registry_that_never_ends_its_answer_is_given_up() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nx";
    for times in [Times { read: BRIEF, load: PLENTY }, Times { read: PLENTY, load: BRIEF }] {
        let slow = Registry::new([("", Answer::Begin(head))]);
        let error = ask_within(times, &[("slow", &slow)]).unwrap_err();
        assert!(matches!(error, RegistryError::Failed { .. }), "{error}");
    }
}

#[test]
fn a_name_that_could_lead_elsewhere_is_never_asked_for() {
    let registry = Registry::with(&index());
    let registries = Registries::new(&[registry.settings("r")], HttpClient::system()).unwrap();
    for text in ["claw://registry/../greet@1.0.0", "claw://registry/./greet@1.0.0"] {
        let error = registries.beside(&FileDocuments).registry(&uri(text)).unwrap_err();
        assert!(matches!(error, RegistryError::NotFound(_)), "{text}");
    }
    assert_eq!(registry.asked(), Vec::<String>::new());
}

#[test]
fn components_of_one_load_are_bounded_together() {
    let component = "code";
    let registry = Registry::new([
        ("", Answer::Bytes(with("component", part(component)).to_string().into())),
        ("/document", document()),
        ("/component", Answer::Bytes(component.into())),
    ]);
    let registries = Registries::new(&[registry.settings("r")], HttpClient::system()).unwrap();
    let load = registries.beside(&FileDocuments);
    load.left.set(component.len() + 1);
    let address = uri("claw://registry/n/greet@1.0.0");
    load.registry(&address).unwrap();
    let error = load.registry(&address).unwrap_err();
    assert!(error.to_string().contains("more than is left"), "{error}");
}

#[tokio::test]
async fn it_can_be_asked_from_inside_any_runtime() {
    let registry = Registry::with(&index());
    assert!(ask(&[("r", &registry)]).is_ok());
}
