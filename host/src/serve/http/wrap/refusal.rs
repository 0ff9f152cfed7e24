//! What a client is told where the server has not answered.

use http::StatusCode;
use rmcp::model::RequestId;

use super::call::Answer;
use crate::serve::message::Fault;
use crate::upstream::mcp::NoResult;

/// No such session, or none any longer.
const UNKNOWN_SESSION: i32 = -32_001;
pub(super) const NO_SESSION: &str = "there is no such session";
/// The server is not there, or does not answer.
pub(super) const SILENT: i32 = -32_000;

/// Why a request has no answer of the server: the status, the code and the words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) StatusCode, pub(super) i32, pub(super) &'static str);

impl Refusal {
    pub(super) fn of(self, id: RequestId) -> Answer {
        Answer::new(self.0, Fault::new(self.1, self.2).to(id).to_line())
    }
}

impl From<&NoResult> for Refusal {
    fn from(why: &NoResult) -> Self {
        match why {
            NoResult::Over => Self(StatusCode::NOT_FOUND, UNKNOWN_SESSION, NO_SESSION),
            NoResult::Silent(text) => Self(StatusCode::SERVICE_UNAVAILABLE, SILENT, text),
            NoResult::Error(_) => {
                Self(StatusCode::SERVICE_UNAVAILABLE, SILENT, "the server does not begin")
            }
        }
    }
}
