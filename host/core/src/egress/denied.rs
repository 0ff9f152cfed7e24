//! A refusal: one text for the guest, a reason for the audit record.

use crate::violation::{Lack, Violation};

/// A request that the profile does not allow.
///
/// Its text is the same for every reason: telling a guest whether the name, the port or the
/// address was wrong would help it map a network it may not see.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the sandbox profile does not allow this request")]
pub struct EgressDenied {
    reason: Reason,
    detail: String,
    name: Option<String>,
    lacks: Option<Lack>,
}

impl EgressDenied {
    /// Returns a refusal for `reason`, with the `detail` that the audit record will show.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), name: None, lacks: None }
    }

    /// Says which name leads there. Whoever gave it may not know where it leads in somebody's network.
    #[must_use]
    pub fn behind(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// Says which grant would have been enough.
    #[must_use]
    pub fn lacking(self, lack: Lack) -> Self {
        Self { lacks: Some(lack), ..self }
    }

    /// Returns what the audit record holds of it.
    pub fn violation(&self) -> Violation {
        let words = |detail: &str| format!("network: {}", self.words(detail));
        let (text, told) = (words(&self.detail), self.name.as_deref().map(words));
        Violation { text, told, lacks: self.lacks.clone() }
    }

    /// Returns why, for choosing an error code.
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns the full text for the audit record and the log; never for the guest.
    pub fn internal(&self) -> String {
        self.words(&self.detail)
    }

    fn words(&self, detail: &str) -> String {
        format!("{}: {}", self.reason.describe(), detail.escape_debug())
    }
}

/// What a request was refused for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// An address that is not globally routable, or that the profile blocks.
    Address,
    /// A header that belongs to the host, or that could split a message.
    Header,
    /// A host that is not on the allow-list, or is on the block-list.
    Host,
    /// Not a URL that has exactly one reading.
    Malformed,
    /// A method that is not in [`METHODS`](super::METHODS).
    Method,
    /// A port the profile does not open.
    Port,
    /// Neither `http` nor `https`, or the one that the rules leave out.
    Scheme,
    /// A user name or password inside the URL.
    UserInfo,
}

table! {
    Reason::describe: &'static str {
        Address: "address not allowed", Header: "header not allowed", Host: "host not allowed",
        Malformed: "not an unambiguous URL", Method: "method not allowed",
        Port: "port not allowed", Scheme: "scheme not allowed",
        UserInfo: "user name or password in the URL",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_reads_the_same_from_outside() {
        let port = EgressDenied::new(Reason::Port, "22");
        let address = EgressDenied::new(Reason::Address, "127.0.0.1");
        assert_eq!(port.to_string(), address.to_string());
        assert_eq!(address.internal(), "address not allowed: 127.0.0.1");
    }

    #[test]
    fn a_caller_is_told_the_name_and_not_where_it_leads() {
        let denied = EgressDenied::new(Reason::Address, "10.1.2.3").behind("db.test");
        let Violation { text, told, .. } = denied.violation();
        assert_eq!(text, "network: address not allowed: 10.1.2.3");
        assert_eq!(told.unwrap(), "network: address not allowed: db.test");
        assert_eq!(EgressDenied::new(Reason::Port, "22").violation().told, None);
    }

    #[test]
    fn the_audit_text_stays_on_one_line() {
        assert!(
            !EgressDenied::new(Reason::Host, "a\nb\u{1b}").internal().contains(['\n', '\u{1b}'])
        );
    }
}
