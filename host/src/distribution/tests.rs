//! Components at URLs: a server with a certificate of its own, under names that lead to this machine.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use clawhost_core::package::Reference;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::*;
use crate::upstream::http::TrustedRoots;
use crate::upstream::http::tests::{Here, read_request, tls};

const MODULE: &str = "\0asm\u{1}\0\0\0";

/// The answer to a path: a status line with more headers, and the body.
fn answer(path: &str) -> (&'static str, &'static str) {
    match path {
        "/d/greet.wasm" => ("200 OK", MODULE),
        "/d/greet.wasm.minisig" => ("200 OK", "signed"),
        "/page.wasm" => ("200 OK", "<html>"),
        "/moved.wasm" => ("302 Found\r\nlocation: /d/greet.wasm", ""),
        "/elsewhere.wasm" => ("302 Found\r\nlocation: https://other.test/x.wasm", ""),
        "/plain.wasm" => ("302 Found\r\nlocation: http://good.test/x.wasm", ""),
        _ => ("404 Not Found", ""),
    }
}

/// Starts the server; returns what pulls from it, its address, and the paths that it is asked for.
async fn serve() -> (Distribution, String, Arc<Mutex<Vec<String>>>) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["good.test".to_owned()]).unwrap();
    let (acceptor, roots) = tls(&cert, &signing_key);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("https://good.test:{}", listener.local_addr().unwrap().port());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let (head, _) = read_request(&mut stream).await;
            let path = head.split(' ').nth(1).unwrap().to_owned();
            let (status, body) = answer(&path);
            seen.lock().push(path);
            let text = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(text.as_bytes()).await.unwrap();
            drop(stream.shutdown().await);
        }
    });
    let client = HttpClient::new(Arc::new(Here), TrustedRoots::Only(roots));
    let registries = Registries::new(&[], client.clone()).unwrap();
    let distribution = Distribution::new(client, BTreeMap::new(), registries, Secrets::none());
    (distribution, url, asked)
}

#[tokio::test]
async fn a_url_gives_its_component_and_the_signature_beside_it() {
    let (distribution, url, asked) = serve().await;
    let reference = Reference::parse(&format!("{url}/d/greet.wasm")).unwrap();
    let plain = distribution.pull(&reference, false).await.unwrap();
    assert_eq!((&*plain.bytes, plain.signature), (MODULE.as_bytes(), None));
    assert_eq!(*asked.lock(), ["/d/greet.wasm"]);
    let signed = distribution.pull(&reference, true).await.unwrap();
    assert_eq!(
        (signed.source, signed.signature.as_deref()),
        (reference.to_string(), Some("signed"))
    );
    let moved = Reference::parse(&format!("{url}/moved.wasm")).unwrap();
    let moved = distribution.pull(&moved, true).await.unwrap();
    assert_eq!((moved.digest, moved.signature), (plain.digest, None));
}

#[tokio::test]
async fn what_is_no_component_or_elsewhere_in_private_is_not_taken() {
    let (distribution, url, _) = serve().await;
    for (path, says) in [
        ("/page.wasm", "no WebAssembly"),
        ("/gone.wasm", "not there"),
        ("/elsewhere.wasm", "address not allowed"),
        ("/plain.wasm", "only asked over https"),
    ] {
        let reference = Reference::parse(&format!("{url}{path}")).unwrap();
        let trouble = distribution.pull(&reference, false).await.unwrap_err().to_string();
        assert!(trouble.contains(says), "{path}: {trouble}");
    }
    let nobody = Reference::parse("https://other.test/x.wasm").unwrap();
    assert!(matches!(distribution.pull(&nobody, false).await, Err(Trouble::Server(_))));
}
