//! A request that passed every check that needs no look-up.

use std::sync::Arc;

use clawhost_core::egress::{EgressDenied, EgressRules, Reason, Target, check_request, parse_url};
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Uri};
use url::Url;

/// A request whose URL, method and headers the rules allow.
///
/// It goes to the URL that was checked, spelled as it was read: the target, the `Host` header
/// and the request line all come from that one parse.
#[derive(Debug)]
pub struct CheckedRequest<B> {
    request: Request<B>,
    route: Route,
}

/// Where a checked request goes, and the rules that its addresses have to pass.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) rules: Arc<EgressRules>,
    pub(super) target: Target,
}

impl<B> CheckedRequest<B> {
    /// Checks `request`, the URI of which is absolute.
    ///
    /// # Errors
    /// Whatever `rules` refuse.
    pub fn new(rules: Arc<EgressRules>, mut request: Request<B>) -> Result<Self, EgressDenied> {
        let headers =
            request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        check_request(request.method().as_str(), headers)?;
        let url = parse_url(&request.uri().to_string())?;
        let target = rules.check_url(&url)?;
        let unspeakable = || EgressDenied::new(Reason::Malformed, url.as_str());
        *request.uri_mut() = request_line(&url).ok_or_else(unspeakable)?;
        let host = HeaderValue::try_from(target.authority()).map_err(|_| unspeakable())?;
        request.headers_mut().insert(HOST, host);
        *request.version_mut() = http::Version::HTTP_11;
        Ok(Self { request, route: Route { rules, target } })
    }

    /// Returns where it goes.
    pub const fn target(&self) -> &Target {
        &self.route.target
    }

    /// Returns where it goes, and the request itself, for a secret to be put into it: what is
    /// written here is checked no more, so it is never a guest's.
    pub(crate) const fn open(&mut self) -> (&Target, &mut Request<B>) {
        (&self.route.target, &mut self.request)
    }

    pub(super) fn into_parts(self) -> (Request<B>, Route) {
        (self.request, self.route)
    }
}

/// Returns the path and query of `url`, which is all that a server that is no proxy is sent.
fn request_line(url: &Url) -> Option<Uri> {
    let line = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    PathAndQuery::try_from(line).ok().map(Uri::from)
}

#[cfg(test)]
mod tests {
    use clawhost_core::egress::HostRules;

    use super::*;

    fn checked(uri: &str) -> Result<CheckedRequest<()>, Reason> {
        let rules = EgressRules::of(HostRules::Any);
        let request = Request::builder().uri(uri).header("x", "y").body(()).unwrap();
        CheckedRequest::new(Arc::new(rules), request).map_err(|denied| denied.reason())
    }

    #[test]
    fn the_wire_carries_what_was_checked() {
        let request = checked("https://Example.COM:443/a/../b?c=d").unwrap().into_parts().0;
        assert_eq!(request.uri(), "/b?c=d");
        assert_eq!(request.headers()[HOST], "example.com");
        assert_eq!(
            checked("http://example.com:443").unwrap().target().authority(),
            "example.com:443"
        );
        assert_eq!(checked("http://example.com").unwrap().into_parts().0.uri(), "/");
    }

    #[test]
    fn nothing_relative_or_with_credentials_is_sent() {
        assert_eq!(checked("/relative").err(), Some(Reason::Malformed));
        assert_eq!(checked("http://user:pw@example.com/").err(), Some(Reason::UserInfo));
    }
}
