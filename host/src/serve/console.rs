//! The console's page: three files inside this program, and the headers that keep a browser to them.
//!
//! The page keeps the operator's credential in its memory and sends it with each question. It is no
//! cookie: a browser sends those by itself, and to every port of a machine, so that a page which an
//! agent's tool serves here could make the operator's browser speak, or be told the cookie. What no
//! browser sends by itself needs no further guard against that. Deliberately absent: anything from
//! elsewhere, a build step, and data (`operator` has the answers).

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Where the page is.
pub(super) const PAGE: &str = "/console";
/// Where its questions are answered.
pub(super) const API: &str = "/console/api";

/// What a browser may do here: load these files, and ask this host. No script is text of a page, and
/// where a browser knows how, no text becomes elements.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     form-action 'none'; frame-ancestors 'none'; base-uri 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

/// Sent with whatever is answered below [`PAGE`].
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
];

/// Says whether `path` is one of the console's.
pub(super) fn has(path: &str) -> bool {
    path.strip_prefix(PAGE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns a file of the page, with its type.
pub(super) fn file(path: &str) -> Option<(&'static str, &'static str)> {
    match path.strip_prefix(PAGE)? {
        "" | "/" => Some(("text/html; charset=utf-8", include_str!("console/console.html"))),
        "/console.css" => Some(("text/css; charset=utf-8", include_str!("console/console.css"))),
        "/console.js" => {
            Some(("text/javascript; charset=utf-8", include_str!("console/console.js")))
        }
        _ => None,
    }
}

/// Adds what an answer of the console has to say to a browser.
pub(super) fn protect(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_nothing_inline_and_nothing_from_elsewhere() {
        let [page, style, script] = ["", "/console.css", "/console.js"]
            .map(|path| file(&format!("{PAGE}{path}")).unwrap().1);
        for needle in [" style=", "<style", "onclick", "onload", "javascript:", "<script>"] {
            assert!(!page.contains(needle), "{needle}");
        }
        for needle in ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("] {
            assert!(!script.contains(needle), "{needle}");
        }
        for text in [page, style, script] {
            assert!(!text.contains("//www") && !text.contains("http") && !text.contains("@import"));
        }
    }

    #[test]
    fn only_what_is_below_the_page_is_the_console_s() {
        assert!(has("/console") && has("/console/api") && has("/console/"));
        assert!(!has("/consoles") && !has("/mcp") && !has("/"));
        assert!(file("/console").is_some() && file("/console/") == file("/console"));
        assert!(file("/console//").is_none() && file("/console/../status").is_none());
    }
}
