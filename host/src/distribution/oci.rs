//! One repository of an OCI registry (distribution specification 1.1): manifests and blobs, by
//! digest, both ways.

use bytes::Bytes;
use clawhost_core::limits::{OCI_MANIFEST_BYTES_MAX, POST_ANSWER_BYTES_MAX};
use clawhost_core::manifest::OciSettings;
use clawhost_core::package::artifact::MANIFEST_TYPE;
use clawhost_core::package::{OciReference, Version};
use clawhost_core::{digest, egress, json};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use url::Url;

use super::{Distribution, Trouble};
use crate::secrets::Secrets;
use crate::upstream::fetch::{self, Answer, Ask, Web, body, found};

const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");
const MANIFEST: HeaderValue = HeaderValue::from_static(MANIFEST_TYPE);

/// A repository, and who asks.
#[derive(Debug)]
pub(crate) struct Registry<'a> {
    pub(super) web: &'a Web,
    pub(super) secrets: &'a Secrets,
    pub(super) reference: &'a OciReference,
    pub(super) settings: OciSettings,
    /// `…/v2/<repository>/`.
    pub(super) base: Url,
    /// What a token has to be good for.
    pub(super) scope: String,
    /// What the registry has accepted, or is about to be sent.
    authorization: Option<HeaderValue>,
}

impl<'a> Registry<'a> {
    pub(super) fn open(
        of: &'a Distribution,
        reference: &'a OciReference,
        actions: &str,
    ) -> Result<Self, Trouble> {
        let OciReference { registry, repository, .. } = reference;
        let settings = of.oci.get(registry).cloned().unwrap_or_default();
        let base = |scheme: &str| Url::parse(&format!("{scheme}://{registry}/v2/{repository}/"));
        let wrong = |error| Trouble::Server(format!("{registry}: {error}"));
        let mut url = base("https").map_err(wrong)?;
        if settings.http.unwrap_or_else(|| url.host().is_some_and(egress::is_this_machine)) {
            url = base("http").map_err(wrong)?;
        }
        let scope = format!("repository:{repository}:{actions}");
        let (web, secrets) = (&of.web, &of.secrets);
        Ok(Self { web, secrets, reference, settings, base: url, scope, authorization: None })
    }

    /// Returns the manifest and its digest; nothing where there is none.
    pub(crate) async fn manifest(&mut self) -> Result<Option<(Bytes, String)>, Trouble> {
        let version = match &self.reference.version {
            Version::Digest(text) | Version::Tag(text) => text.clone(),
        };
        let mut ask = Ask::get(self.url(&format!("manifests/{version}"))?, OCI_MANIFEST_BYTES_MAX);
        ask.headers.insert(ACCEPT, MANIFEST);
        let url = ask.url.clone();
        let answer = self.send(ask).await?;
        let Some(manifest) = found(&url, answer).await? else { return Ok(None) };
        let digest = digest::of_bytes(&manifest);
        if matches!(&self.reference.version, Version::Digest(wanted) if *wanted != digest) {
            let reason = format!("{url} sent a manifest with the digest {digest}");
            return Err(Trouble::Server(reason));
        }
        Ok(Some((manifest, digest)))
    }

    /// Returns the blob of that digest and length.
    pub(crate) async fn blob(&mut self, wanted: &str, bytes: u64) -> Result<Bytes, Trouble> {
        let ask = Ask::get(self.url(&format!("blobs/{wanted}"))?, bytes);
        let url = ask.url.clone();
        let answer = self.send(ask).await?;
        let gone = || Trouble::Server(format!("{url}: the registry lists it and does not have it"));
        let blob = found(&url, answer).await?.ok_or_else(gone)?;
        let (length, digest) = (blob.len() as u64, digest::of_bytes(&blob));
        if length == bytes && digest == wanted {
            return Ok(blob);
        }
        Err(Trouble::Server(format!(
            "{url} sent something else: {length} bytes with the digest {digest}, where {bytes} bytes are listed"
        )))
    }

    /// Sends a blob, unless the registry has it.
    pub(crate) async fn put_blob(&mut self, blob: Bytes) -> Result<(), Trouble> {
        let digest = digest::of_bytes(&blob);
        let mut ask = Ask::get(self.url(&format!("blobs/{digest}"))?, POST_ANSWER_BYTES_MAX);
        ask.method = Method::HEAD;
        if self.send(ask).await?.status() == StatusCode::OK {
            return Ok(());
        }
        let mut ask = Ask::get(self.url("blobs/uploads/")?, POST_ANSWER_BYTES_MAX);
        ask.method = Method::POST;
        let begun = self.expect(ask, StatusCode::ACCEPTED).await?;
        let mut url = self.place(&begun)?;
        url.query_pairs_mut().append_pair("digest", &digest);
        self.put(url, blob, BYTES).await
    }

    /// Sends the manifest, whose blobs are there, and lets the reference mean it.
    pub(crate) async fn put_manifest(&mut self, manifest: Bytes) -> Result<(), Trouble> {
        let tag = match &self.reference.version {
            Version::Digest(text) | Version::Tag(text) => text.clone(),
        };
        let url = self.url(&format!("manifests/{tag}"))?;
        self.put(url, manifest, MANIFEST).await
    }

    async fn put(&mut self, url: Url, content: Bytes, kind: HeaderValue) -> Result<(), Trouble> {
        let mut ask = Ask::get(url, POST_ANSWER_BYTES_MAX);
        (ask.method, ask.body) = (Method::PUT, content);
        ask.headers.insert(CONTENT_TYPE, kind);
        self.expect(ask, StatusCode::CREATED).await.map(drop)
    }

    /// Sends a request that is answered with `wanted` or has failed.
    async fn expect(&mut self, ask: Ask, wanted: StatusCode) -> Result<Answer, Trouble> {
        let url = ask.url.clone();
        let answer = self.send(ask).await?;
        let status = answer.status();
        if status == wanted {
            return Ok(answer);
        }
        let said = body(&url, answer).await.ok().and_then(|body| code(&body)).unwrap_or_default();
        Err(Trouble::Server(format!("{url}: the registry answers {}{said}", status.as_u16())))
    }

    /// Sends a request, and once more where the registry wants to know who asks.
    async fn send(&mut self, ask: Ask) -> Result<Answer, Trouble> {
        let first = self.once(&ask).await?;
        if first.status() != StatusCode::UNAUTHORIZED {
            return Ok(first);
        }
        self.authorization = Some(self.authorize(&first).await?);
        drop(first);
        let second = self.once(&ask).await?;
        match second.status() {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let reason = format!("{} does not allow {}", self.reference.registry, self.scope);
                let hint =
                    "look at `user` and `secret` of the registry under `oci` in clawhost.yaml";
                Err(Trouble::Refused { reason, hint })
            }
            _ => Ok(second),
        }
    }

    async fn once(&self, ask: &Ask) -> Result<Answer, Trouble> {
        let mut ask = ask.clone();
        ask.headers.extend(self.authorization.clone().map(|value| (AUTHORIZATION, value)));
        Ok(match ask.method {
            Method::GET => self.web.follow(ask).await?,
            _ => self.web.send(fetch::own(&self.base)?, ask).await?,
        })
    }

    fn url(&self, rest: &str) -> Result<Url, Trouble> {
        let url = self.base.join(&format!("./{rest}"));
        url.map_err(|error| Trouble::Server(format!("{}: {error}", self.base)))
    }

    /// Returns where an upload goes on: at the registry itself, or nowhere.
    fn place(&self, answer: &Answer) -> Result<Url, Trouble> {
        let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let url = location.and_then(|location| self.base.join(location).ok());
        let elsewhere =
            || Trouble::Server(format!("{} sends uploads elsewhere", self.reference.registry));
        url.filter(|url| url.origin() == self.base.origin()).ok_or_else(elsewhere)
    }
}

/// Returns the code of a refusal, to be appended to a sentence: capitals only, and nothing that
/// could repeat what was sent.
fn code(body: &[u8]) -> Option<String> {
    let body = json::parse(body).ok()?;
    let code = body.get("errors")?.get(0)?.get("code")?.as_str()?;
    let is_code = code.len() <= 64 && code.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    is_code.then(|| format!(": {code}"))
}
