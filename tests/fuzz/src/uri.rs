//! `claw://` addresses: the parser agrees with the published grammar on every text.

use clawhost_core::uri::{ClawUri, ManifestUri};

#[allow(dead_code, reason = "its own tests use the rest")]
#[path = "../../../host/core/src/uri/grammar.rs"]
mod grammar;

/// The parser bounds a version, the grammar does not: `claw://local/tool/a@` and 128 bytes.
const BYTES_MAX: usize = 148;

/// Reads `data` as an address.
pub fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && data.len() <= BYTES_MAX
    {
        grammar::agreed(text);
    }
    if let Ok(ManifestUri::Alias(alias)) = ManifestUri::parse(&String::from_utf8_lossy(data)) {
        let text = alias.canonical().to_string();
        assert_eq!(ClawUri::parse(&text).map(|uri| uri.to_string()), Ok(text));
    }
}
