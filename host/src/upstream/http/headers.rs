//! What headers say, and what they must not show.

use std::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue};
use zeroize::Zeroizing;

/// Returns a header that nobody is to see: what it shows, and what stands before it; nothing where no
/// header can hold it.
pub(crate) fn sensitive(before: &str, shown: &str) -> Option<HeaderValue> {
    let text = Zeroizing::new(format!("{before}{shown}"));
    let mut header = HeaderValue::from_str(&text).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// Says whether a body comes as it is: in no coding that would hide a secret from the mask.
pub(crate) fn is_plain(headers: &HeaderMap) -> bool {
    let only = |name, plain: &str| {
        headers.get_all(name).iter().all(|value| {
            let mut codings = value.to_str().unwrap_or("unreadable").split(',').map(str::trim);
            codings.all(|it| it.is_empty() || it.eq_ignore_ascii_case(plain))
        })
    };
    only(CONTENT_ENCODING, "identity") && only(TRANSFER_ENCODING, "chunked")
}

/// Says whether a body is of that media type, whatever else is said of it.
pub(crate) fn is_of(headers: &HeaderMap, media_type: &str) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let essence = kind.unwrap_or_default().split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(media_type)
}

/// Reads the seconds of `Retry-After`; a date is not read, the wait of whoever asks stands in for it.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_is_told_in_any_case() {
        let is_stream = |kind: &'static str| {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
            is_of(&headers, "text/event-stream")
        };
        assert!(is_stream("Text/Event-Stream; charset=utf-8") && is_stream("text/event-stream"));
        assert!(!is_stream("application/json") && !is_stream("text/event-streams"));
        assert!(!is_of(&HeaderMap::new(), "text/event-stream"));
    }
}
