//! Folders that are published, over real connections.

use std::path::Path;

use bytes::Bytes;
use clawhost_core::egress;
use http_body_util::{BodyExt as _, Empty};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::upstream::http::{CheckedRequest, HttpClient, RequestLimits};

const TOOL: &str = "claw: \"0.3.0\"\nkind: Tool\nmetadata: { name: greet, version: 1.0.0 }\nspec: { description: d, input_schema: {} }\n";
const COMPONENT: &str = "(component)";

fn write(folder: &Path, file: &str, text: &str) {
    let path = folder.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn published() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "pub/secret.yaml", "top secret");
    write(folder.path(), "pub/n/greet/1.0.0/document.yaml", TOOL);
    write(folder.path(), "pub/n/greet/1.0.0/component.wat", COMPONENT);
    write(folder.path(), "pub/n/greet/2.0.0/document.yaml", TOOL);
    write(folder.path(), "pub/n/both/1.0.0/document.yaml", TOOL);
    write(folder.path(), "pub/n/both/1.0.0/document.json", "{}");
    write(folder.path(), "outside/greet/1.0.0/document.yaml", TOOL);
    folder
}

async fn serve(folder: &Path) -> (BoundServer, CancellationToken) {
    let dir = Dir::open_ambient_dir(folder.join("pub"), cap_std::ambient_authority()).unwrap();
    let told = CancellationToken::new();
    let address = "127.0.0.1:0".parse().unwrap();
    let server = serve_registry(dir, address, Shutdown::from(told.clone())).await.unwrap();
    (server, told)
}

/// Sends `request` to the server and returns status, headers and text.
async fn send(
    server: &BoundServer,
    method: &str,
    path: &str,
    extra: Option<(&str, &str)>,
) -> (u16, HeaderMap, String) {
    let base = format!("http://{}", server.local_addr);
    let mut request = Request::builder().method(method).uri(format!("{base}{path}"));
    if let Some((name, value)) = extra {
        request = request.header(name, value);
    }
    let rules = Arc::new(egress::endpoint(&base).unwrap());
    let request = CheckedRequest::new(rules, request.body(Empty::<Bytes>::new()).unwrap()).unwrap();
    let limits = RequestLimits::until(std::time::Instant::now() + Duration::from_secs(20));
    let answer = HttpClient::system().send(request, &limits).await.unwrap();
    let (head, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), head.headers, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn an_index_its_document_and_its_component_are_published() {
    let folder = published();
    let (server, told) = serve(folder.path()).await;
    let (status, headers, text) = send(&server, "GET", "/n/greet/1.0.0", None).await;
    assert_eq!(
        (status, &headers[header::CONTENT_TYPE]),
        (200, &"application/json".parse().unwrap())
    );
    let index: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        index,
        json!({
            "namespace": "n", "name": "greet", "version": "1.0.0", "kind": "Tool",
            "document": {"digest": digest::of_bytes(TOOL.as_bytes()), "bytes": TOOL.len()},
            "component": {"digest": digest::of_bytes(COMPONENT.as_bytes()), "bytes": COMPONENT.len()},
        })
    );
    let (_, headers, text) = send(&server, "GET", "/n/greet/1.0.0/document", None).await;
    assert_eq!(text, TOOL);
    let tag = headers[header::ETAG].to_str().unwrap().to_owned();
    assert_eq!(tag, format!("\"{}\"", digest::of_bytes(TOOL.as_bytes())));
    let (status, _, text) =
        send(&server, "GET", "/n/greet/1.0.0/document", Some(("if-none-match", &tag))).await;
    assert_eq!((status, text.as_str()), (304, ""));
    let (_, headers, text) = send(&server, "GET", "/n/greet/1.0.0/component", None).await;
    assert_eq!(text, COMPONENT);
    assert!(headers["repr-digest"].to_str().unwrap().starts_with("sha-256=:"));
    let (status, headers, text) = send(&server, "HEAD", "/n/greet/1.0.0/document", None).await;
    assert_eq!((status, text.as_str()), (200, ""));
    assert_eq!(headers[header::CONTENT_LENGTH].to_str().unwrap(), TOOL.len().to_string());
    told.cancel();
    server.task.await.unwrap();
}

#[tokio::test]
async fn nothing_but_packages_can_be_read() {
    let folder = published();
    std::os::unix::fs::symlink(folder.path().join("outside"), folder.path().join("pub/linked"))
        .unwrap();
    let (server, _told) = serve(folder.path()).await;
    for (path, status, code) in [
        ("/n/greet/9.0.0", 404, "not-found"),
        ("/n/absent/1.0.0/document", 404, "not-found"),
        ("/other/greet/1.0.0", 404, "not-found"),
        ("/secret.yaml/greet/1.0.0", 404, "not-found"),
        // The document says 1.0.0.
        ("/n/greet/2.0.0", 500, "invalid-package"),
        ("/n/both/1.0.0", 500, "invalid-package"),
        ("/", 400, "bad-address"),
        ("/n/greet", 400, "bad-address"),
        ("/n/greet/1.0.0/document.yaml", 400, "bad-address"),
        ("/n/greet/1.0.0/document?x", 400, "bad-address"),
        ("/n/greet/1.0", 400, "bad-address"),
        ("/%2e%2e/secret/1.0.0", 400, "bad-address"),
        ("/n/gr%65et/1.0.0", 400, "bad-address"),
        ("//greet/1.0.0", 400, "bad-address"),
        ("/.git/greet/1.0.0", 400, "bad-address"),
        ("/linked/greet/1.0.0", 500, "unreadable"),
    ] {
        let (got, _, text) = send(&server, "GET", path, None).await;
        let error: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((got, error["error"]["code"].as_str()), (status, Some(code)), "{path}: {text}");
        assert!(!text.contains("secret:") && !text.contains("top secret"), "{path}");
    }
    let (status, headers, _) = send(&server, "DELETE", "/n/greet/1.0.0", None).await;
    assert_eq!((status, headers[header::ALLOW].to_str().unwrap()), (405, "GET, HEAD"));
}

#[tokio::test]
async fn a_bad_package_is_listed_and_answered_with_its_reason() {
    let folder = published();
    let long = format!("claw: \"0.3.0\"\nkind: Tool\n\u{202e}{}: 1\n", "x".repeat(9_000));
    write(folder.path(), "pub/n/long/1.0.0/document.yaml", &long);
    std::fs::create_dir_all(folder.path().join("pub/n/empty/1.0.0")).unwrap();
    std::fs::create_dir_all(folder.path().join("pub/n/-x/one")).unwrap();
    std::fs::create_dir_all(folder.path().join("pub/.git/a/b")).unwrap();
    let dir = Dir::open_ambient_dir(folder.path().join("pub"), cap_std::ambient_authority());
    let listed = list_registry(&dir.unwrap()).unwrap();
    let shown: Vec<_> =
        listed.iter().map(|one| (one.place.as_str(), one.wrong.as_deref())).collect();
    let places: Vec<&str> = shown.iter().map(|(place, _)| *place).collect();
    let expected =
        ["-x/one", "both/1.0.0", "empty/1.0.0", "greet/1.0.0", "greet/2.0.0", "long/1.0.0"];
    assert_eq!(places, expected.map(|place| format!("n/{place}")));
    let wrong = |at: usize| shown[at].1.unwrap_or("nothing");
    assert!(wrong(0).contains("no address"), "{shown:?}");
    assert!(wrong(1).contains("a second one"), "{shown:?}");
    assert!(wrong(2).contains("no document.yaml"), "{shown:?}");
    assert_eq!(wrong(3), "nothing");
    assert!(wrong(4).contains("of version 1.0.0; its folders say `greet` and 2.0.0"), "{shown:?}");
    let (server, _told) = serve(folder.path()).await;
    let (_, _, text) = send(&server, "GET", "/n/greet/2.0.0", None).await;
    assert!(text.contains(wrong(4)), "{text}");
    let (_, _, text) = send(&server, "GET", "/n/long/1.0.0", None).await;
    assert!(text.len() < 1_500 && !text.contains('\u{202e}'), "{text}");
}

#[test]
fn only_this_machine_is_meant() {
    let names = |host: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        names_this_machine(&headers)
    };
    for host in ["127.0.0.1:1", "127.0.0.1", "localhost:7334", "[::1]:7334", "LOCALHOST"] {
        assert!(names(host), "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "192.168.0.1", "", "127.0.0.1.evil"] {
        assert!(!names(host), "{host}");
    }
    assert!(!names_this_machine(&HeaderMap::new()));
}

#[tokio::test]
async fn others_cannot_reach_it() {
    let folder = published();
    let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).unwrap();
    let shutdown = Shutdown::from(CancellationToken::new());
    let error = serve_registry(dir, "0.0.0.0:0".parse().unwrap(), shutdown).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}
