//! Where placeholders become values: headers, path and query of a request that passed every check.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use clawhost_core::egress::{Target, percent_encoded};
use clawhost_core::grants::SecretGrant;
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Uri};

use super::{CallSecrets, PLACEHOLDER, Text};
use crate::secrets::{NoSecret, SecretError};
use crate::upstream::http::{CheckedRequest, sensitive};

/// Clients pad Basic credentials or do not.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl CallSecrets {
    /// Puts values into the places of placeholders in a request that passed every check.
    ///
    /// # Errors
    /// A secret that the request needs cannot be had, or cannot stand where it should.
    pub(in crate::sandbox) fn fill<B>(
        &self,
        request: &mut CheckedRequest<B>,
    ) -> Result<(), SecretError> {
        if self.held.is_empty() {
            return Ok(());
        }
        let (target, request) = request.open();
        if request.headers().values().any(|value| may_hold(value.as_bytes())) {
            *request.headers_mut() = self.fill_headers(target, request.headers())?;
        }
        if request.uri().path_and_query().is_some_and(|line| may_hold(line.as_str().as_bytes())) {
            self.fill_uri(target, request.uri_mut())?;
        }
        Ok(())
    }

    fn fill_headers(&self, target: &Target, headers: &HeaderMap) -> Result<HeaderMap, SecretError> {
        let mut filled = HeaderMap::with_capacity(headers.len());
        for (name, value) in headers {
            // It says which host was checked, and is the host's own.
            if name == HOST {
                filled.append(name, value.clone());
                continue;
            }
            match self.fill_header(target, value)? {
                Some(value) => drop(filled.append(name, value)),
                None => tracing::warn!(
                    header = name.as_str(),
                    host = %target.host,
                    "a header with a secret was left out: the secret is not for this host."
                ),
            }
        }
        Ok(filled)
    }

    /// Returns the value to send, or none where it has a secret that may not go to `target`.
    fn fill_header(
        &self,
        target: &Target,
        value: &HeaderValue,
    ) -> Result<Option<HeaderValue>, SecretError> {
        let Ok(text) = value.to_str() else {
            return Ok(Some(value.clone()));
        };
        let basic = basic_credentials(text);
        let plain = basic.as_deref().unwrap_or(text);
        let used: Vec<_> = self.used_in(plain).collect();
        let Some((first, _)) = used.first() else {
            return Ok(Some(value.clone()));
        };
        if used.iter().any(|(grant, _)| !grant.may_go_to(target)) {
            return Ok(None);
        }
        let filled = self.replace(plain, &used, |value| Cow::Borrowed(value))?;
        let filled = if basic.is_some() { basic_header(&filled) } else { filled };
        let why = NoSecret::Unusable("it cannot stand in a header");
        sensitive("", &filled).ok_or_else(|| SecretError::new(&first.name, why)).map(Some)
    }

    fn fill_uri(&self, target: &Target, uri: &mut Uri) -> Result<(), SecretError> {
        let line = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let used: Vec<_> =
            self.used_in(line).filter(|(grant, _)| grant.may_go_to(target)).collect();
        let Some((first, _)) = used.first() else {
            return Ok(());
        };
        let filled = self.replace(line, &used, |value| Cow::Owned(percent_encoded(value)))?;
        let why = NoSecret::Unusable("it cannot stand in a URL");
        let filled =
            PathAndQuery::try_from(filled).map_err(|_| SecretError::new(&first.name, why))?;
        *uri = Uri::from(filled);
        Ok(())
    }

    /// Returns the secrets whose placeholders are in `text`.
    fn used_in<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (&'a SecretGrant, &'a str)> {
        self.held.iter().filter_map(move |held| match &held.text {
            Text::Placeholder(placeholder) if text.contains(placeholder) => {
                Some((&held.grant, placeholder.as_str()))
            }
            _ => None,
        })
    }

    fn replace(
        &self,
        text: &str,
        used: &[(&SecretGrant, &str)],
        spell: impl Fn(&str) -> Cow<'_, str>,
    ) -> Result<String, SecretError> {
        let mut text = text.to_owned();
        for (grant, placeholder) in used {
            let value = self.value(&grant.name)?;
            text = text.replace(placeholder, &spell(value.expose()));
        }
        Ok(text)
    }
}

/// A quick look, which base64 hides a placeholder from: `Basic` is always looked into.
fn may_hold(bytes: &[u8]) -> bool {
    bytes.windows(PLACEHOLDER.len()).any(|window| window == PLACEHOLDER.as_bytes())
        || std::str::from_utf8(bytes).is_ok_and(|text| basic_token(text).is_some())
}

fn basic_token(text: &str) -> Option<&str> {
    let (scheme, token) = text.trim_start().split_once(' ')?;
    scheme.eq_ignore_ascii_case("basic").then(|| token.trim())
}

/// Returns `user:password` of Basic credentials.
fn basic_credentials(text: &str) -> Option<String> {
    String::from_utf8(LENIENT.decode(basic_token(text)?).ok()?).ok()
}

fn basic_header(credentials: &str) -> String {
    format!("Basic {}", STANDARD.encode(credentials))
}
