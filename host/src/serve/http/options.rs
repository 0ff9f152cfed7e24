//! Where HTTP is served, and to whom.

use std::net::SocketAddr;

use crate::proxy::ProxyOptions;

/// How to serve HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpOptions {
    /// Where to listen. Port 0 takes a free one.
    pub address: SocketAddr,
    /// Whether an agent needs its token. Without, only loopback addresses are accepted and
    /// everybody who can connect is the agent `default`.
    pub require_token: bool,
    /// Names or `name:port` beside the loopback ones under which clients know this host.
    pub allowed_hosts: Vec<String>,
    /// Origins (`https://name:port`) by which browsers know the host's own pages, beside its address: a proxy's. Without
    /// CORS the pages of others cannot call, listed or not.
    pub allowed_origins: Vec<String>,
    /// Whether the operator's console is served at `/console`.
    pub console: bool,
    /// How completions are served at `/v1`; not at all where this is absent.
    pub proxy: Option<ProxyOptions>,
}

impl HttpOptions {
    /// Returns the safe defaults: tokens, no name or page beside the host's own, and a console where only
    /// this machine can reach it.
    pub const fn new(address: SocketAddr) -> Self {
        Self {
            address,
            require_token: true,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            console: address.ip().is_loopback(),
            proxy: None,
        }
    }
}
