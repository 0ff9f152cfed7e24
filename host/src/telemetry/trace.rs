//! W3C trace context: of which trace a caller says its request is part.

use std::fmt;

use clawhost_core::digest;
use http::HeaderMap;
use serde::{Serialize, Serializer};

/// What the key in `_meta` and the HTTP header are called.
pub const TRACEPARENT: &str = "traceparent";

/// What a caller says its request is part of. It names spans and decides nothing: whether a call is
/// sampled is the operator's word here, and the caller's flag is for those that are asked on its behalf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub(super) trace: [u8; 16],
    /// The caller's own span.
    pub(super) span: [u8; 8],
    flags: u8,
}

impl TraceParent {
    /// Reads `00-<trace>-<span>-<flags>`; what is not well-formed is nothing, as the standard has it.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace) = (bytes::<1>(parts.next()?)?, bytes(parts.next()?)?);
        let (span, [flags]) = (bytes(parts.next()?)?, bytes(parts.next()?)?);
        let is_whole = version != [0xff] && (version != [0] || parts.next().is_none());
        (is_whole && trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span, flags })
    }

    /// Returns what the header of a request says.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        Self::parse(headers.get(TRACEPARENT)?.to_str().ok()?)
    }
}

/// Reads digits in lower case, exactly as many as there is room for.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_lower = text.len() == 2 * N && !text.contains(|it: char| it.is_ascii_uppercase());
    is_lower.then(|| digest::unhex(text)).flatten()?.try_into().ok()
}

/// As it is passed on to whoever is asked within the call, without what a later version may add.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (digest::hex(&self.trace), digest::hex(&self.span));
        write!(f, "00-{trace}-{span}-{:02x}", self.flags)
    }
}

/// Writes the trace's id: the span is another's.
impl Serialize for TraceParent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:032x}", u128::from_be_bytes(self.trace)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn only_what_is_well_formed_is_a_parent() {
        let parsed = TraceParent::parse(&format!("00-{TRACE}-{SPAN}-00")).unwrap();
        assert_eq!(serde_json::to_value(parsed).unwrap(), TRACE);
        let later = TraceParent::parse(&format!("01-{TRACE}-{SPAN}-01-later")).unwrap();
        assert_eq!((later.trace, later.span), (parsed.trace, parsed.span));
        assert_eq!(later.to_string(), format!("00-{TRACE}-{SPAN}-01"));
        let zero = |text: &str| "0".repeat(text.len());
        for wrong in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{}-{SPAN}-01", zero(TRACE)),
            format!("00-{TRACE}-{}-01", zero(SPAN)),
            format!("00-{TRACE}-{SPAN}é-01"),
            format!("00-{SPAN}-{TRACE}-01"),
        ] {
            assert_eq!(TraceParent::parse(&wrong), None, "{wrong}");
        }
    }
}
