//! The client configuration that a newcomer pastes: the `mcpServers` form that Claude, Cursor and
//! most other clients read.
//!
//! Deliberately absent: writing it anywhere. Only the person who pastes it decides who gets the
//! token inside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use clawhost_core::json::put;
use serde_json::{Value, json};

use crate::state::Token;

/// Returns the configuration for a host that serves HTTP on `address`.
///
/// With a `token`, the text holds a secret: show it to the person who started the host only.
pub fn http(address: SocketAddr, token: Option<&Token>) -> Value {
    let mut server = json!({"type": "http", "url": format!("http://{}/mcp", reachable(address))});
    let bearer = |token: &Token| json!({"Authorization": format!("Bearer {}", token.reveal())});
    put(&mut server, "headers", token.map(bearer));
    json!({"mcpServers": {"clawhost": server}})
}

/// Returns the configuration for a client that starts `program` itself and speaks over pipes.
///
/// `given` is what `clawhost run` is given: relative paths mean the client's directory, so give
/// absolute ones.
pub fn stdio(program: &str, given: &[String]) -> Value {
    let mut arguments = vec!["run"];
    arguments.extend(given.iter().map(String::as_str));
    arguments.push("--stdio");
    json!({"mcpServers": {"clawhost": {"command": program, "args": arguments, "env": {}}}})
}

/// Nobody can connect to "any address": the loopback address of the same family is meant.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_http_form_has_an_address_that_can_be_reached() {
        let config = http("0.0.0.0:7433".parse().unwrap(), None);
        let expected = json!({"type": "http", "url": "http://127.0.0.1:7433/mcp"});
        assert_eq!(config["mcpServers"]["clawhost"], expected);
        let token = Token::generate("agent").unwrap();
        let config = http("[::1]:80".parse().unwrap(), Some(&token));
        let server = &config["mcpServers"]["clawhost"];
        assert_eq!(server["url"], json!("http://[::1]:80/mcp"));
        let bearer = format!("Bearer {}", token.reveal());
        assert_eq!(server["headers"]["Authorization"], json!(bearer));
    }

    #[test]
    fn the_stdio_form_starts_the_host_with_stdio() {
        let config = stdio("/usr/bin/clawhost", &["/a/claw.yaml".to_owned()]);
        let server = &config["mcpServers"]["clawhost"];
        assert_eq!(server["command"], json!("/usr/bin/clawhost"));
        assert_eq!(server["args"], json!(["run", "/a/claw.yaml", "--stdio"]));
    }
}
