//! Pulling and pushing, as whoever types it sees it: against registries that this file plays, honest
//! and not, and against a real one with another client, which `tests/registry/install.sh` installs.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};

use base64::Engine as _;
use clawhost_core::digest;
use clawhost_core::package::artifact::{Artifact, Layer, Outline};
use clawhost_tests::listening::{answering, listening, read_head};
use clawhost_tests::wait::{SOON, until};
use clawhost_tests::{Cli, Program};
use serde_json::Value;

use crate::cli::PROGRAM;
use crate::registry::{Registry, head_of, ok, tool, word_count};

const REGISTRY: &str = "/usr/bin/docker-registry";
/// `minisign -S` of [`ANSWER`] made the signature, and `minisign -G` the keys.
pub(crate) const ANSWER: &str = r#"(component
  (core module $m (func (export "f") (result i32) i32.const 42))
  (core instance $i (instantiate $m))
  (func (export "answer") (result u32) (canon lift (core func $i "f"))))
"#;
const KEY: &str = "RWSnqvxjstO2YOryD/mFmpavL6CDNInjJ1d1JBoLQk8vJ27Ip3MXVxUy";
const OTHER_KEY: &str = "RWQEawV9TEVMQXT0FgOX41p7vhrZ6b5eebfznLEvjmHIlS+mmXB51rP9";
const SIGNATURE: &str = "untrusted comment: signature from minisign secret key
RUSnqvxjstO2YIQ2e4Vgb63bgWeH4sBu6xygDnvolh72BMF8gTtiN2TBoMQiklY/NbMziMRLM9X+Sh+gnry1NCTLbTaXvVaI6QA=
trusted comment: of a test
IKrYK0UwFxm49mZ9rnFOWE5cLeG+dvxyHnic6vx3iwO8j9wdwsSQ9gfpGvGndaPro564ysRTAFompXsSBwqIAg==
";

/// A component that answers with a number, in binary form.
pub(crate) fn component(number: u32) -> Vec<u8> {
    wat::parse_str(ANSWER.replace("42", &number.to_string())).unwrap()
}

/// Returns the manifest of a component and its digest.
pub(crate) fn manifest(bytes: &[u8], signature: Option<&str>) -> (Vec<u8>, String) {
    let signature = signature.map(str::to_owned);
    let layer = Layer { digest: digest::of_bytes(bytes), bytes: bytes.len() as u64, signature };
    let manifest = Artifact::new(&layer, &Outline::default()).manifest;
    let digest = digest::of_bytes(&manifest);
    (manifest, digest)
}

const NOT_FOUND: &[u8] =
    b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// What a registry of this file has: the numbers of components, of which the tag is the last.
pub(crate) type Shelf = Arc<Mutex<Vec<u32>>>;

/// Answers as an honest registry does, to a path.
pub(crate) fn honest(shelf: &Shelf, path: &str) -> Vec<u8> {
    let numbers = shelf.lock().unwrap().clone();
    let last = numbers.last().copied();
    let all = numbers.into_iter().map(|number| (number, component(number)));
    for (number, bytes) in all {
        let (manifest, digest) = manifest(&bytes, None);
        let is_tagged = path.ends_with("/manifests/1.0.0") && Some(number) == last;
        if is_tagged || path.ends_with(&format!("/manifests/{digest}")) {
            return ok(&manifest);
        }
        if path.ends_with(&format!("/blobs/{}", digest::of_bytes(&bytes))) {
            return ok(&bytes);
        }
    }
    NOT_FOUND.to_vec()
}

/// Starts an honest registry with these components, and returns its `host:port`.
pub(crate) fn serve(numbers: &[u32]) -> (String, Shelf) {
    let shelf: Shelf = Arc::new(Mutex::new(numbers.to_vec()));
    let seen = Arc::clone(&shelf);
    let (url, _) = answering(move |head| honest(&seen, head_of(head).1));
    (host_of(&url), shelf)
}

pub(crate) fn host_of(url: &str) -> String {
    url.strip_prefix("http://").unwrap().to_owned()
}

/// A folder with a tools folder and this runtime file.
pub(crate) fn cli(runtime: &str) -> Cli {
    let cli = Cli::new(PROGRAM);
    std::fs::create_dir(cli.here().join("tools")).unwrap();
    cli.write("clawhost.yaml", format!("version: 1\n{runtime}\n"));
    cli
}

pub(crate) fn pull(cli: &Cli, more: &[&str]) -> clawhost_tests::cli::Run {
    cli.run(&[&["pull", "--tools", "tools"], more].concat())
}

/// Returns the names of what is in the tools folder, hidden files included.
pub(crate) fn files(cli: &Cli) -> Vec<String> {
    let entries = std::fs::read_dir(cli.here().join("tools")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub(crate) fn read(cli: &Cli, file: &str) -> Vec<u8> {
    std::fs::read(cli.here().join(file)).unwrap_or_default()
}

pub(crate) fn lock(cli: &Cli) -> String {
    String::from_utf8(read(cli, "clawhost.lock")).unwrap()
}

#[test]
fn what_was_pulled_stays_what_it_was_until_somebody_says_otherwise() {
    let (host, shelf) = serve(&[1]);
    let cli = cli("");
    let reference = format!("oci://{host}/tools/answer:1.0.0");
    let dry = pull(&cli, &[&reference, "--dry-run"]);
    assert_eq!(dry.code, Some(0), "{}", dry.stderr);
    assert!(dry.stdout.contains("would write tools/answer.wasm"), "{}", dry.stdout);
    assert_eq!((files(&cli), lock(&cli)), (Vec::new(), String::new()));
    // A document that waits for whatever is called so would grant it something.
    cli.write("tools/answer.yaml", "kind: Tool");
    let taken = pull(&cli, &[&reference]);
    assert_eq!(taken.code, Some(4), "{}", taken.stderr);
    assert!(taken.stderr.contains("`answer.yaml` is there"), "{}", taken.stderr);
    std::fs::remove_file(cli.here().join("tools/answer.yaml")).unwrap();

    let first = pull(&cli, &[&reference]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert_eq!(read(&cli, "tools/answer.wasm"), component(1));
    let locked = lock(&cli);
    let digest = digest::of_bytes(&component(1));
    assert!(locked.contains(&digest) && locked.contains(&reference), "{locked}");

    // The tag moves; what is locked is there all the same, by its digest.
    shelf.lock().unwrap().push(2);
    let moved = pull(&cli, &[&reference]);
    assert_eq!(moved.code, Some(4), "{}", moved.stderr);
    for said in [digest.as_str(), &digest::of_bytes(&component(2)), "--update"] {
        assert!(moved.stderr.contains(said), "{}", moved.stderr);
    }
    std::fs::remove_file(cli.here().join("tools/answer.wasm")).unwrap();
    let again = pull(&cli, &[]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert_eq!((read(&cli, "tools/answer.wasm"), lock(&cli)), (component(1), locked));

    let accepted = pull(&cli, &["--update"]);
    assert_eq!(accepted.code, Some(0), "{}", accepted.stderr);
    assert_eq!(read(&cli, "tools/answer.wasm"), component(2));
    assert!(!lock(&cli).contains(&digest), "{}", lock(&cli));
    assert_eq!(files(&cli), ["answer.wasm"]);
}

#[test]
fn a_file_that_somebody_changed_is_left_alone() {
    let (host, _) = serve(&[1]);
    let cli = cli("");
    let reference = format!("oci://{host}/tools/answer:1.0.0");
    cli.write("tools/answer.wasm", "mine");
    let run = pull(&cli, &[&reference]);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(run.stderr.contains("--replace"), "{}", run.stderr);
    assert_eq!(read(&cli, "tools/answer.wasm"), b"mine");
    let run = pull(&cli, &[&reference, "--name", "other"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(files(&cli), ["answer.wasm", "other.wasm"]);
    let run = pull(&cli, &[&reference, "--name", "answer", "--replace"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(read(&cli, "tools/answer.wasm"), component(1));

    // A link would lead the writing elsewhere.
    std::fs::remove_file(cli.here().join("tools/answer.wasm")).unwrap();
    std::os::unix::fs::symlink("../mine", cli.here().join("tools/answer.wasm")).unwrap();
    let run = pull(&cli, &[&reference, "--replace"]);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(!cli.here().join("mine").exists());
}

#[test]
fn two_references_have_two_files() {
    let (host, _) = serve(&[1]);
    let cli = cli("");
    assert_eq!(pull(&cli, &[&format!("oci://{host}/a/answer:1.0.0")]).code, Some(0));
    let run = pull(&cli, &[&format!("oci://{host}/b/answer:1.0.0")]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("--name"), "{}", run.stderr);
}

/// Sends to `place`, whatever is asked.
fn redirect(place: &str) -> Vec<u8> {
    format!("HTTP/1.1 307 Temporary\r\nlocation: {place}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into()
}

/// Answers to a path.
type Answer = Box<dyn Fn(&str) -> Vec<u8> + Send>;

/// A registry that is honest but for its blobs.
fn but_for_blobs(blob: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Answer {
    let shelf: Shelf = Arc::new(Mutex::new(vec![1]));
    Box::new(move |path| if path.contains("/blobs/") { blob(path) } else { honest(&shelf, path) })
}

/// A registry with this manifest.
fn with_manifest(text: String) -> Answer {
    Box::new(
        move |path| {
            if path.contains("/manifests/") { ok(text.as_bytes()) } else { NOT_FOUND.to_vec() }
        },
    )
}

#[test]
fn nothing_that_is_wrong_is_written_and_nobody_else_is_asked() {
    let (elsewhere, reached) = answering(|_| ok(b"{}"));
    let target = elsewhere.clone();
    let huge = u64::MAX;
    let digest = digest::of_bytes(b"");
    let layer = |kind: &str, bytes: u64| {
        format!(
            r#"{{"layers": [{{"mediaType": "{kind}", "digest": "{digest}", "size": {bytes}}}]}}"#
        )
    };
    let answers: Vec<(Answer, i32, &str)> = vec![
        (but_for_blobs(|_| ok(&component(2))), 6, "with the digest"),
        (
            but_for_blobs(|_| {
                b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\nconnection: close\r\n\r\n\0asm".to_vec()
            }),
            6,
            "the answer",
        ),
        (but_for_blobs(|_| ok(&component(1)[..20])), 6, "20 bytes"),
        (but_for_blobs(|_| ok(&[&component(1)[..], &[0; 9999]].concat())), 6, "longer than"),
        (but_for_blobs(|_| NOT_FOUND.to_vec()), 6, "does not have it"),
        (but_for_blobs(move |_| redirect(&target)), 6, "only asked over https"),
        (but_for_blobs(|_| redirect("https://127.0.0.1/blob")), 6, "address not allowed"),
        (
            but_for_blobs(|_| redirect("https://169.254.169.254/latest/meta-data")),
            6,
            "address not allowed",
        ),
        (but_for_blobs(|_| redirect("https://[::ffff:10.0.0.1]/blob")), 6, "address not allowed"),
        (but_for_blobs(|_| redirect("file:///etc/passwd")), 6, "only asked over https"),
        (but_for_blobs(redirect), 6, "more than 5 times"),
        (but_for_blobs(|_| redirect("")), 6, "times"),
        (with_manifest(layer("application/wasm", huge)), 3, "at most"),
        (with_manifest(layer("application/vnd.oci.image.layer.v1.tar+gzip", 0)), 3, "tar+gzip"),
        (with_manifest(r#"{"layers": [], "layers": []}"#.to_owned()), 3, "layers"),
        (with_manifest(" ".repeat(2 << 20)), 6, "longer than"),
        (Box::new(|_| NOT_FOUND.to_vec()), 6, "does not have it"),
        (Box::new(|_| b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".to_vec()), 6, "answers 500"),
        (
            Box::new(|_| {
                b"HTTP/1.1 401 No\r\nwww-authenticate: Negotiate\r\ncontent-length: 0\r\n\r\n"
                    .to_vec()
            }),
            6,
            "who asks",
        ),
        (
            Box::new(|_| {
                b"HTTP/1.1 401 No\r\nwww-authenticate: Basic\r\ncontent-length: 0\r\n\r\n".to_vec()
            }),
            4,
            "who asks",
        ),
    ];
    for (answer, code, says) in answers {
        let (url, _) = answering(move |head| answer(head_of(head).1));
        let cli = cli("");
        let run = pull(&cli, &[&format!("oci://{}/tools/answer:1.0.0", host_of(&url))]);
        assert_eq!(run.code, Some(code), "{says}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{says}: {}", run.stderr);
        assert_eq!((files(&cli), lock(&cli)), (Vec::new(), String::new()), "{says}");
    }
    assert_eq!(*reached.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn what_a_registry_says_at_length_is_shown_shortened() {
    let far = format!("http://far.example/{}", "x".repeat(20_000));
    let challenge = |realm: &str| {
        format!(
            "HTTP/1.1 401 No\r\nwww-authenticate: Bearer realm=\"{realm}\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
    };
    let (asks, again) = (challenge(&far), challenge(&far));
    let nowhere = challenge(&"x".repeat(20_000));
    let answers: [(Answer, bool, &str); 4] = [
        (Box::new(move |_| asks.clone().into()), false, "over https"),
        (Box::new(move |_| again.clone().into()), true, "token_url"),
        (Box::new(move |_| nowhere.clone().into()), false, "gives no token"),
        (but_for_blobs(move |_| redirect(&far)), false, "over https"),
    ];
    for (answer, has_account, says) in answers {
        let (url, _) = answering(move |head| answer(head_of(head).1));
        let host = host_of(&url);
        let cli = if has_account { with_account(&host, "") } else { cli("") };
        let run = pull(&cli, &[&format!("oci://{host}/tools/answer:1.0.0")]);
        assert!(run.stderr.contains(says) && run.stderr.len() < 2_000, "{says}: {}", run.stderr);
    }
}

#[test]
fn what_is_no_reference_and_what_has_another_digest_is_refused() {
    let (host, _) = serve(&[1]);
    let cli = cli("");
    for text in ["oci://host/../x", "http://x.example/a.wasm", "a.wasm", "claw://local/tool/x"] {
        let run = pull(&cli, &[text]);
        assert_eq!(run.code, Some(2), "{text}: {}", run.stderr);
    }
    let run = pull(&cli, &[&format!("oci://{host}/t/answer:1.0.0"), "--name", "../x"]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    let wanted = digest::of_bytes(b"");
    let run = pull(&cli, &[&format!("oci://{host}/t/answer:1.0.0"), "--digest", &wanted]);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(run.stderr.contains(&wanted) && run.stderr.contains(&digest::of_bytes(&component(1))));
    let run = pull(&cli, &[&format!("oci://{host}/t/answer@{wanted}")]);
    assert_eq!(run.code, Some(6), "{}", run.stderr);
    assert_eq!(files(&cli), Vec::<String>::new());
    let nowhere = cli.run(&["pull", &format!("oci://{host}/t/answer:1.0.0")]);
    assert_eq!(nowhere.code, Some(2), "{}", nowhere.stderr);
    assert!(nowhere.stderr.contains("tools.directory"), "{}", nowhere.stderr);
}

#[test]
fn a_lock_file_of_somebody_else_leads_nowhere() {
    let (host, _) = serve(&[1]);
    let first = cli("");
    assert_eq!(pull(&first, &[&format!("oci://{host}/t/answer:1.0.0")]).code, Some(0));
    let good = lock(&first);
    for (from, to) in [
        ("name: answer", "name: ../../answer"),
        ("name: answer", "name: .answer"),
        ("oci://127", "oci://10.0.0.1:80/x#127"),
        ("version: 1", "version: 2"),
        ("bytes:", "more: 1\n    bytes:"),
    ] {
        let cli = cli("");
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        cli.write("clawhost.lock", text);
        let run = pull(&cli, &[]);
        assert_eq!(run.code, Some(3), "{to}: {}", run.stderr);
        assert!(run.stderr.contains("clawhost.lock"), "{to}: {}", run.stderr);
        assert_eq!(files(&cli), Vec::<String>::new());
    }
}

/// Answers 401 with this challenge to whoever does not say `Authorization: wanted`.
fn guarded(shelf: &Shelf, head: &str, wanted: &str, challenge: &str) -> Vec<u8> {
    let said = head.lines().find_map(|line| line.strip_prefix("authorization: "));
    if said == Some(wanted) {
        return honest(shelf, head_of(head).1);
    }
    format!("HTTP/1.1 401 No\r\nwww-authenticate: {challenge}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into()
}

fn basic() -> String {
    format!("Basic {}", base64::prelude::BASE64_STANDARD.encode("robot:hunter22"))
}

/// A folder whose runtime file has an account for `host`.
fn with_account(host: &str, more: &str) -> Cli {
    let cli = cli(&format!("oci:\n  \"{host}\": {{user: robot, secret: REG{more}}}"));
    let run = cli.run_with(&["secrets", "set", "REG"], "hunter22\n");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    cli
}

#[test]
fn an_account_is_sent_to_its_registry_and_to_nobody_else() {
    let shelf: Shelf = Arc::new(Mutex::new(vec![1]));
    let (tokens, asked) = answering(|_| ok(br#"{"token": "t0ken"}"#));
    let seen = Arc::clone(&shelf);
    let realm = format!("{tokens}/token");
    let challenge = format!("Bearer realm=\"{realm}\",service=\"reg\",scope=\"everything\"");
    let (url, _) = answering(move |head| guarded(&seen, head, "Bearer t0ken", &challenge));
    let reference = format!("oci://{}/t/answer:1.0.0", host_of(&url));

    // Another host gives tokens: nobody said that it may have the password.
    let cli = with_account(&host_of(&url), "");
    let run = pull(&cli, &[&reference]);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(run.stderr.contains("token_url"), "{}", run.stderr);
    assert_eq!(*asked.lock().unwrap(), Vec::<String>::new());
    // Nor is a private address asked by somebody without an account.
    let run = pull(&self::cli(""), &[&reference]);
    assert_eq!(run.code, Some(6), "{}", run.stderr);
    assert_eq!(*asked.lock().unwrap(), Vec::<String>::new());

    let cli = with_account(&host_of(&url), &format!(", token_url: \"{realm}\""));
    let run = pull(&cli, &[&reference]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let asked = asked.lock().unwrap();
    // For this and nothing more, whatever the registry would have liked.
    assert!(asked[0].contains("scope=repository%3At%2Fanswer%3Apull "), "{asked:?}");
    assert!(asked[0].contains(&basic()), "{asked:?}");
    let all = format!("{}{}{}{}", run.stdout, run.stderr, lock(&cli), cli.log());
    assert!(!all.contains("hunter22") && !all.contains("t0ken"), "{all}");
}

#[test]
fn a_redirect_leaves_the_account_behind() {
    let (url, heads) = answering({
        let shelf: Shelf = Arc::new(Mutex::new(vec![1]));
        move |head| {
            let path = head_of(head).1;
            // Within the registry it is the registry that asks; elsewhere it is not.
            match (path.contains("/blobs/"), path.contains("?on")) {
                (true, false) => redirect(&format!("{path}?on")),
                (true, true) => redirect("https://127.0.0.1:1/blob"),
                _ => guarded(&shelf, head, &basic(), "Basic realm=\"x\""),
            }
        }
    });
    let cli = with_account(&host_of(&url), "");
    let run = pull(&cli, &[&format!("oci://{}/t/answer:1.0.0", host_of(&url))]);
    assert_eq!(run.code, Some(6), "{}", run.stderr);
    assert!(!run.stderr.contains("hunter22"), "{}", run.stderr);
    let heads = heads.lock().unwrap();
    let on: Vec<&String> = heads.iter().filter(|head| head.contains("?on")).collect();
    assert!(on[0].contains(&basic()), "{heads:?}");
}

#[test]
fn an_upload_goes_on_at_the_registry_or_not_at_all() {
    let (elsewhere, reached) = answering(|_| ok(b""));
    let (url, _) = answering(move |head| {
        match head_of(head) {
        ("POST", _) => format!("HTTP/1.1 202 Go\r\nlocation: {elsewhere}/up\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into(),
        _ => NOT_FOUND.to_vec(),
    }
    });
    let cli = cli("");
    cli.write("answer.wasm", component(1));
    let reference = format!("oci://{}/t/answer:1", host_of(&url));
    let run = cli.run(&["push", "answer.wasm", &reference]);
    assert_eq!(run.code, Some(6), "{}", run.stderr);
    assert!(run.stderr.contains("sends uploads elsewhere"), "{}", run.stderr);
    assert_eq!(*reached.lock().unwrap(), Vec::<String>::new());
    for (file, reference, code) in [
        ("clawhost.yaml", reference.as_str(), 3),
        ("gone.wasm", &reference, 2),
        ("answer.wasm", "https://x.example/a.wasm", 2),
    ] {
        let run = cli.run(&["push", file, reference]);
        assert_eq!(run.code, Some(code), "{file} {reference}: {}", run.stderr);
    }
}

#[tokio::test]
async fn a_pull_that_is_killed_leaves_no_half_file() {
    let (tell, told) = mpsc::channel::<TcpStream>();
    let shelf: Shelf = Arc::new(Mutex::new(vec![1]));
    let port = listening(move |mut stream| {
        let head = read_head(&mut stream);
        let answer = honest(&shelf, head_of(&head).1);
        if head.contains("/blobs/") {
            stream.write_all(&answer[..answer.len() - 1]).unwrap();
            tell.send(stream).unwrap();
        } else {
            stream.write_all(&answer).unwrap();
        }
    });
    let cli = cli("");
    let reference = format!("oci://127.0.0.1:{port}/t/answer:1.0.0");
    let mut program = cli.start(&["pull", &reference, "--tools", "tools"]);
    // All but the last byte is there.
    let stream = told.recv_timeout(SOON).unwrap();
    program.kill().unwrap();
    drop(stream);
    assert_eq!((files(&cli), lock(&cli)), (Vec::new(), String::new()));
}

#[test]
fn a_component_without_the_wanted_signature_is_neither_pulled_nor_served() {
    let shelf = |signature: Option<&'static str>| {
        let bytes = component(42);
        let (manifest, _) = manifest(&bytes, signature);
        answering(move |head| match head_of(head).1.contains("/blobs/") {
            true => ok(&bytes),
            false => ok(&manifest),
        })
    };
    for signature in [None, Some("nonsense"), Some(SIGNATURE)] {
        // The signature is of the text, and this is the binary.
        let (url, _) = shelf(signature);
        let cli = cli(&format!("tools: {{signed_by: [{KEY}]}}"));
        let run = pull(&cli, &[&format!("oci://{}/t/answer:1", host_of(&url))]);
        assert_eq!(run.code, Some(4), "{}", run.stderr);
        assert!(run.stderr.contains("tools.signed_by"), "{}", run.stderr);
        assert_eq!(files(&cli), Vec::<String>::new());
    }
    let served = |runtime: &str, component: &str, signature: &str| {
        let cli = cli(runtime);
        cli.write("tools/answer.wat", component);
        cli.write("tools/answer.wat.minisig", signature);
        let run = cli.run(&["tools", "--json", "--tools", "tools"]);
        let said: Value = serde_json::from_str(&run.stdout).unwrap();
        let tools = said["tools"].as_array().unwrap();
        let is_served = tools.iter().any(|tool| tool["name"] == "answer");
        (is_served, said["refused"].to_string())
    };
    for keys in [
        format!("tools: {{signed_by: [{KEY}]}}"),
        format!("profiles: {{none: {{signed_by: [{OTHER_KEY}, {KEY}]}}}}"),
    ] {
        assert_eq!(served(&keys, ANSWER, SIGNATURE), (true, "[]".to_owned()), "{keys}");
        for (component, signature) in [
            (ANSWER.replace("42", "43"), SIGNATURE.to_owned()),
            (ANSWER.to_owned(), SIGNATURE.replace("of a test", "of another")),
            (ANSWER.to_owned(), String::new()),
        ] {
            let (is_served, refused) = served(&keys, &component, &signature);
            assert!(!is_served && refused.contains("signed_by"), "{keys}: {refused}");
        }
    }
    let other = format!("tools: {{signed_by: [{OTHER_KEY}]}}");
    assert!(!served(&other, ANSWER, SIGNATURE).0);
    let both =
        format!("tools: {{signed_by: [{KEY}]}}\nprofiles: {{none: {{signed_by: [{OTHER_KEY}]}}}}");
    assert!(!served(&both, ANSWER, SIGNATURE).0);
}

#[test]
fn a_version_keeps_a_text_as_it_was_signed() {
    let cli = cli(&format!("registry: {{}}\ntools: {{signed_by: [{KEY}]}}"));
    cli.write("seeds/answer.wat.minisig", SIGNATURE);
    for (version, component, is_signed) in
        [("1", ANSWER.to_owned(), true), ("2", ANSWER.replace("42", "43"), false)]
    {
        cli.write("seeds/answer.wat", component);
        for words in [&["seed", "seeds"][..], &["pin", version]] {
            let run = cli.run(&[&["registry"], words].concat());
            assert_eq!(run.code, Some(0), "{}", run.stderr);
        }
        let said: Value = serde_json::from_str(&cli.run(&["tools", "--json"]).stdout).unwrap();
        let tools = said["tools"].as_array().unwrap();
        let refused = said["refused"].to_string();
        assert_eq!(tools.iter().any(|tool| tool["name"] == "answer"), is_signed, "{said}");
        assert_eq!(refused.contains("signed_by"), !is_signed, "{refused}");
    }
}

#[test]
fn a_component_of_a_registry_is_signed_like_any_other() {
    const URI: &str = "claw://registry/community/answer@1.0.0";
    let registry = Registry::serve();
    let place = "community/answer/1.0.0";
    let document = tool("answer", "1.0.0", "As published.");
    let publish = |component: &str| {
        registry.publish(place, &document, Some(component.as_bytes()));
    };
    publish(ANSWER);
    let cli = crate::registry::host(URI, &[]);
    std::fs::create_dir(cli.here().join("tools")).unwrap();
    let runtime = |key: &str| {
        let url = &registry.url;
        let text = format!(
            "version: 1\nregistries: [{{name: main, url: \"{url}\"}}]\ntools: {{signed_by: [{key}]}}\n"
        );
        cli.write("clawhost.yaml", text);
    };
    let served = || {
        let run = cli.run(&["tools", "claw.yaml", "--json"]);
        let said: Value = serde_json::from_str(&run.stdout).unwrap();
        (said["tools"].as_array().unwrap().len(), said["refused"].to_string())
    };
    let refused = || {
        let (tools, why) = served();
        assert!(tools == 0 && why.contains("`tools.signed_by`"), "{why}");
        assert_eq!(pull(&cli, &[URI]).code, Some(4));
        assert_eq!(files(&cli), [""; 0]);
    };
    runtime(KEY);
    refused();
    registry.sign(place, SIGNATURE);
    assert_eq!(served(), (1, "[]".to_owned()));
    publish(&ANSWER.replace("42", "43"));
    refused();
    publish(ANSWER);
    runtime(OTHER_KEY);
    refused();
    runtime(KEY);
    assert_eq!(pull(&cli, &[URI]).code, Some(0));
    assert_eq!(files(&cli), ["answer.wat", "answer.wat.minisig"]);
    assert_eq!(read(&cli, "tools/answer.wat.minisig"), SIGNATURE.as_bytes());
}

#[test]
fn what_is_not_as_it_is_locked_is_not_served() {
    let (host, _) = serve(&[1]);
    let cli = cli("tools: {directory: tools}");
    let reference = format!("oci://{host}/tools/answer:1.0.0");
    assert_eq!(pull(&cli, &[&reference]).code, Some(0));
    let served = |name: &str| {
        let run = cli.run(&["tools", "--json"]);
        let said: Value = serde_json::from_str(&run.stdout).unwrap();
        let is_served = said["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == name);
        (is_served, format!("{}{}", said["refused"], run.stderr))
    };
    assert!(served("answer").0);
    cli.write("tools/answer.wasm", component(2));
    let (is_served, why) = served("answer");
    assert!(!is_served && why.contains("clawhost.lock") && why.contains("--replace"), "{why}");
    assert!(why.contains(&reference) && why.contains(&digest::of_bytes(&component(1))), "{why}");
    let run = pull(&cli, &["--replace"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(served("answer").0);

    // Whoever lays a link where the lock file belongs is told no line of what it leads to.
    std::fs::remove_file(cli.here().join("clawhost.lock")).unwrap();
    cli.write("private", "hunter2: [");
    std::os::unix::fs::symlink("private", cli.here().join("clawhost.lock")).unwrap();
    let (is_served, why) = served("answer");
    assert!(!is_served && why.contains("no regular file") && !why.contains("hunter2"), "{why}");
    let run = pull(&cli, &[]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(!run.stderr.contains("hunter2"), "{}", run.stderr);
}

#[test]
fn what_is_missing_or_no_component_is_said_in_a_line() {
    let cli = cli("");
    let run = cli.run(&["pull", "--tools", "tt", "oci://127.0.0.1:1/a:1"]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("the tools folder tt is not there"), "{}", run.stderr);
    cli.write("x.wat", ANSWER);
    let run = cli.run(&["push", "x.wat", "oci://127.0.0.1:1/a:1"]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert_eq!(run.stderr, "error: x.wat: it is no WebAssembly in binary form\n");
}

#[test]
fn an_address_that_is_locked_is_that_when_a_manifest_names_it_too() {
    const URI: &str = "claw://registry/community/word-count@1.2.0";
    let registry = Registry::serve();
    let place = "community/word-count/1.2.0";
    registry.publish(place, &tool("word-count", "1.2.0", "As published."), Some(&word_count()));
    let cli = crate::registry::host(URI, &[("main", &registry.url)]);
    std::fs::create_dir(cli.here().join("tools")).unwrap();
    let run = pull(&cli, &[URI]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(read(&cli, "tools/word-count.wat"), word_count());
    assert_eq!(cli.run(&["validate", "claw.yaml"]).code, Some(0));

    registry.publish(place, &tool("word-count", "1.2.0", "As changed."), None);
    let run = cli.run(&["validate", "claw.yaml"]);
    assert_eq!(run.code, Some(3), "{}", run.stdout);
    assert!(run.stderr.contains("--update"), "{}", run.stderr);
    assert_eq!(pull(&cli, &[URI]).code, Some(4));
    assert_eq!(pull(&cli, &[URI, "--update"]).code, Some(0));
    assert_eq!(cli.run(&["validate", "claw.yaml"]).code, Some(0));
}

/// A real registry of its own, ended with the test; nothing where none is installed.
struct Real {
    _program: Program,
    host: String,
    _folder: tempfile::TempDir,
}

/// What `htpasswd -Bbn robot hunter22` prints.
const ACCOUNTS: &str = "robot:$2y$05$x9EP7GdYNZ5vc8LkEQi2jO0BA0e5uWZI4ya1.uvFgyIAkWqE7UhFa";

async fn real(auth: bool) -> Option<Real> {
    if !Path::new(REGISTRY).exists() {
        eprintln!("skipped: there is no {REGISTRY}; run tests/registry/install.sh");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    // Nobody else takes the port in the moment that it is free.
    let host = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let accounts = folder.path().join("accounts");
    std::fs::write(&accounts, ACCOUNTS).unwrap();
    let auth = match auth {
        true => format!("auth: {{htpasswd: {{realm: test, path: {accounts:?}}}}}"),
        false => String::new(),
    };
    let config = format!(
        "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {:?}}}}}\nhttp: {{addr: \"{host}\"}}\n{auth}\n",
        folder.path().join("blobs")
    );
    let file = folder.path().join("config.yml");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(REGISTRY);
    command.arg("serve").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
    let program = Program::other(&mut command);
    let real = Real { _program: program, host, _folder: folder };
    until("the registry listens", || TcpStream::connect(&real.host).ok()).await;
    Some(real)
}

#[tokio::test]
async fn a_real_registry_takes_components_and_gives_them_back() {
    let Some(registry) = real(false).await else { return };
    let reference = format!("oci://{}/tools/answer:1.0.0", registry.host);
    let author = cli("");
    author.write("answer.wasm", component(42));
    let push = |more: &[&str]| author.run(&[&["push", "answer.wasm", &reference], more].concat());
    let dry = push(&["--dry-run"]);
    assert_eq!(dry.code, Some(0), "{}", dry.stderr);
    let user = cli("tools: {directory: tools}");
    assert_eq!(pull(&user, &[&reference]).code, Some(6), "nothing was sent yet");

    let pushed = push(&["--json"]);
    assert_eq!(pushed.code, Some(0), "{}", pushed.stderr);
    let pushed: Value = serde_json::from_str(&pushed.stdout).unwrap();
    let run = pull(&user, &[&reference, "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let pulled: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(pulled["pulled"][0]["source"], pushed["source"], "{pulled}");
    assert_eq!(read(&user, "tools/answer.wasm"), component(42));
    let listed = user.run(&["tools", "--json"]);
    assert!(listed.stdout.contains("\"answer\""), "{}{}", listed.stdout, listed.stderr);

    let again = push(&[]);
    assert!(again.stdout.contains("is there already"), "{}{}", again.stdout, again.stderr);
    author.write("answer.wasm", component(43));
    let moved = push(&[]);
    assert_eq!(moved.code, Some(4), "{}", moved.stderr);
    assert!(moved.stderr.contains("--update"), "{}", moved.stderr);
    assert_eq!(push(&["--update"]).code, Some(0));
    assert_eq!(pull(&user, &[&reference]).code, Some(4));
    assert_eq!(pull(&user, &[]).code, Some(0));
    assert_eq!(read(&user, "tools/answer.wasm"), component(42));
    let exactly = pushed["source"].as_str().unwrap();
    assert_eq!(pull(&user, &[exactly, "--name", "exact"]).code, Some(0));
    assert_eq!(read(&user, "tools/exact.wasm"), component(42));
}

/// What `oras` is told to do: to fetch one artifact, and to publish its component as another, in the layout of
/// `wkg`.
const ORAS: &str = r#"
import hashlib, json, oras.client, os, sys
host, folder = sys.argv[1:]
client = oras.client.OrasClient(insecure=True)
[pulled] = client.pull(target=f"{host}/tools/answer:1.0.0", outdir=folder)
file = f"{folder}/component.wasm"
os.rename(pulled, file)
digest = "sha256:" + hashlib.sha256(open(file, "rb").read()).hexdigest()
with open(f"{folder}/config", "w") as config:
    json.dump({"created": "2026-01-01T00:00:00Z", "architecture": "wasm", "os": "wasip2", "layerDigests": [digest],
               "component": {"exports": ["answer"], "imports": [], "target": None}}, config)
client.push(target=f"{host}/tools/other:1.0.0", files=[f"{file}:application/wasm"], disable_path_validation=True,
            manifest_config=f"{folder}/config:application/vnd.wasm.config.v0+json")
"#;

/// Pushes `tools/answer`, has another client make `tools/other` of it, and pulls that.
async fn exchanged(program: &str, client: impl Fn(&Path, &Cli, &str)) {
    let program = clawhost_tests::source_root().join("target/registry/bin").join(program);
    if !program.exists() {
        return eprintln!("skipped: no {}; run tests/registry/install.sh", program.display());
    }
    let Some(registry) = real(false).await else { return };
    let (cli, host) = (cli(""), &registry.host);
    cli.write("answer.wasm", component(42));
    let run = cli.run(&["push", "answer.wasm", &format!("oci://{host}/tools/answer:1.0.0")]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    client(&program, &cli, host);
    let digest = digest::of_bytes(&component(42));
    let run = pull(&cli, &[&format!("oci://{host}/tools/other:1.0.0"), "--digest", &digest]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(read(&cli, "tools/other.wasm"), component(42));
}

#[tokio::test]
async fn another_client_reads_what_was_pushed_and_writes_what_is_pulled() {
    exchanged("python", |python, cli, host| {
        let folder = cli.here().join("oras");
        let said = Command::new(python).args(["-c", ORAS, host]).arg(folder).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    })
    .await;
}

#[tokio::test]
async fn wkg_reads_what_was_pushed_and_writes_what_is_pulled() {
    exchanged("wkg", |program, cli, host| {
        let wkg = |verb: &str, tag: &str, more: &[&str]| {
            let mut command = Command::new(program);
            let command = command.current_dir(cli.here()).args(["oci", verb, "--insecure", host]);
            let run = command.arg(format!("{host}/tools/{tag}")).args(more).output().unwrap();
            assert!(run.status.success(), "{run:?}");
        };
        wkg("pull", "answer:1.0.0", &["--output", "pulled.wasm"]);
        assert_eq!(read(cli, "pulled.wasm"), component(42));
        wkg("push", "other:1.0.0", &["pulled.wasm"]);
    })
    .await;
}

#[tokio::test]
async fn a_real_registry_wants_to_know_who_asks() {
    let Some(registry) = real(true).await else { return };
    let reference = format!("oci://{}/tools/answer:1.0.0", registry.host);
    let user = with_account(&registry.host, "");
    user.write("answer.wasm", component(42));
    let push = user.run(&["push", "answer.wasm", &reference]);
    assert_eq!(push.code, Some(0), "{}", push.stderr);
    let run = pull(&user, &[&reference]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(read(&user, "tools/answer.wasm"), component(42));

    let stranger = cli("");
    let run = pull(&stranger, &[&reference]);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(run.stderr.contains("`user` and `secret`"), "{}", run.stderr);
    user.run_with(&["secrets", "set", "REG"], "not this one\n");
    let run = pull(&user, &[&reference]);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(run.stderr.contains("does not allow"), "{}", run.stderr);
}
