//! Why a checked request has no answer.

use clawhost_core::egress::EgressDenied;

/// A request without a complete answer, by what went wrong.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The body is longer than the request's limit.
    #[error("the answer is longer than {bytes_max} bytes")]
    BodyTooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// No address of the host takes connections.
    #[error("the host does not answer")]
    Connect(#[source] std::io::Error),
    /// No address took a connection in time.
    #[error("the host does not answer in time")]
    ConnectTimeout,
    /// The call or the host holds as many connections as it may.
    #[error("too many connections are open")]
    ConnectionsBusy,
    /// The time of the whole request is over.
    #[error("the request is out of time")]
    Deadline,
    /// One of the name's addresses may not be reached.
    #[error(transparent)]
    Denied(#[from] EgressDenied),
    /// The headers or trailers are longer, or more, than the host reads.
    #[error("the answer's headers are too large")]
    HeadersTooLarge,
    /// The connection ended before the answer did.
    #[error("the answer ended early")]
    Incomplete,
    /// The name could not be looked up.
    #[error("the host name could not be resolved")]
    Lookup(#[source] std::io::Error),
    /// What came is no HTTP/1 answer.
    #[error("the answer is not HTTP")]
    Protocol(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nothing came for too long.
    #[error("the host stopped answering")]
    ReadTimeout,
    /// The request's own body failed.
    #[error("the request could not be sent")]
    RequestBody(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The TLS handshake failed.
    #[error("no secure connection could be made")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server's certificate is not one for this name that a trusted root signed.
    #[error("the host's certificate is not trusted")]
    TlsCertificate(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl UpstreamError {
    /// Says it with what caused it, for the record and the log.
    pub(crate) fn with_cause(&self) -> String {
        match std::error::Error::source(self) {
            Some(cause) => format!("{self}: {cause}"),
            None => self.to_string(),
        }
    }
}

impl From<hyper::Error> for UpstreamError {
    fn from(error: hyper::Error) -> Self {
        if error.is_parse_too_large() {
            Self::HeadersTooLarge
        } else if error.is_timeout() {
            Self::ReadTimeout
        } else if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
            Self::Incomplete
        } else if error.is_user() {
            Self::RequestBody(error.into())
        } else {
            Self::Protocol(error.into())
        }
    }
}
