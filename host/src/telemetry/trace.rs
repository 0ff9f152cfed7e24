//! W3C trace context: of which trace a caller says its request is part.

use clawhost_core::digest;
use serde::{Serialize, Serializer};

/// What the key in `_meta` and the HTTP header are called.
pub const TRACEPARENT: &str = "traceparent";

/// What a caller says its request is part of. It names spans and decides nothing: whether a call is
/// sampled is the operator's word, so the caller's flag is read past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub(super) trace: [u8; 16],
    /// The caller's own span.
    pub(super) span: [u8; 8],
}

impl TraceParent {
    /// Reads `00-<trace>-<span>-<flags>`; what is not well-formed is nothing, as the standard has it.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace) = (bytes::<1>(parts.next()?)?, bytes(parts.next()?)?);
        let (span, _flags) = (bytes(parts.next()?)?, bytes::<1>(parts.next()?)?);
        let is_whole = version != [0xff] && (version != [0] || parts.next().is_none());
        (is_whole && trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span })
    }
}

/// Reads digits in lower case, exactly as many as there is room for.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_lower = text.len() == 2 * N && !text.contains(|it: char| it.is_ascii_uppercase());
    is_lower.then(|| digest::unhex(text)).flatten()?.try_into().ok()
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
        assert_eq!(TraceParent::parse(&format!("01-{TRACE}-{SPAN}-01-later")), Some(parsed));
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
