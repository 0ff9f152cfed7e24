//! TLS to a checked address: the name of the URL is the name the certificate must have.

use std::io;
use std::sync::{Arc, OnceLock};

use clawhost_core::egress::TargetHost;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::UpstreamError;

/// Whose signature makes a server's certificate trusted.
#[derive(Debug, Clone)]
pub enum TrustedRoots {
    /// Mozilla's list, compiled in.
    Mozilla,
    /// These, and no others.
    Only(RootCertStore),
}

impl TrustedRoots {
    /// Reads the certificates of a file in PEM, which are trusted and no others.
    ///
    /// # Errors
    /// It holds none, or one that is no certificate.
    pub fn read(pem: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        if roots.is_empty() {
            Err("it holds no certificate".to_owned())
        } else {
            Ok(Self::Only(roots))
        }
    }
}

/// Makes TLS connections; their configuration is built when the first one is wanted.
pub(super) struct Connectors {
    roots: TrustedRoots,
    config: OnceLock<Arc<ClientConfig>>,
}

impl Connectors {
    pub(super) const fn new(roots: TrustedRoots) -> Self {
        Self { roots, config: OnceLock::new() }
    }

    /// Shakes hands over `tcp` with a server that can prove to be `host`.
    pub(super) async fn connect(
        &self,
        host: &TargetHost,
        tcp: TcpStream,
    ) -> Result<TlsStream<TcpStream>, UpstreamError> {
        let name = match host {
            TargetHost::Address(ip) => ServerName::from(*ip),
            TargetHost::Name(name) => ServerName::try_from(name.clone())
                .map_err(|error| UpstreamError::Tls(error.into()))?,
        };
        let connector = TlsConnector::from(self.config()?);
        connector.connect(name, tcp).await.map_err(handshake_error)
    }

    fn config(&self) -> Result<Arc<ClientConfig>, UpstreamError> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let made = client_config(&self.roots).map_err(|error| UpstreamError::Tls(error.into()));
        let mut made = made?;
        made.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::clone(self.config.get_or_init(|| Arc::new(made))))
    }
}

/// Returns how servers are met that `roots` vouch for.
pub(crate) fn client_config(roots: &TrustedRoots) -> Result<ClientConfig, rustls::Error> {
    let roots = match roots {
        TrustedRoots::Mozilla => webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect(),
        TrustedRoots::Only(roots) => roots.clone(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn handshake_error(error: io::Error) -> UpstreamError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            UpstreamError::TlsCertificate(error.into())
        }
        _ => UpstreamError::Tls(error.into()),
    }
}
