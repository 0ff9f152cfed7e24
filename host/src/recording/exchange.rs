//! Requests over HTTP in a recording: what was asked for and what came back, of each request by itself, as
//! answers to several may come in any order.

use std::collections::VecDeque;
use std::task::Poll;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use serde::{Deserialize, Serialize};
use serde_json::json;
use wasmtime_wasi_http::{Error, WasiBody};

use super::{Blob, Reel, Tape};

/// A request and its answer, as the guest was given it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exchange {
    /// The method and the address.
    asked: String,
    /// The status and the headers; nothing where the call ended before they came.
    head: Option<(u16, Vec<(String, Blob)>)>,
    /// The body, piece by piece as it came: how much a guest reads at once is part of what it does.
    body: VecDeque<Blob>,
    /// Whether that is all of it, and not what came before the call ended.
    is_whole: bool,
}

/// The place of one request in what is kept.
#[derive(Debug, Clone)]
pub(crate) struct Track {
    tape: Tape,
    at: usize,
}

impl Exchange {
    /// Returns the bytes of its body in one piece.
    pub(super) fn joined(&self) -> Vec<u8> {
        self.body.iter().flat_map(|Blob(piece)| piece).copied().collect()
    }

    /// Returns the answer again; nothing where none came.
    fn response(self) -> Option<Response<WasiBody>> {
        let (status, headers) = self.head?;
        let header = |(name, Blob(value)): (String, Blob)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::from_bytes(&value).ok()?))
        };
        let pieces = self.body.into_iter().map(|Blob(piece)| Ok(Frame::data(Bytes::from(piece))));
        let rest = stream::poll_fn(move |_| match self.is_whole {
            true => Poll::Ready(None),
            false => Poll::Pending,
        });
        let body = StreamBody::new(stream::iter(pieces).chain(rest)).boxed_unsync();
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(status).ok()?;
        *response.headers_mut() = headers.into_iter().filter_map(header).collect::<HeaderMap>();
        Some(response)
    }
}

impl Tape {
    /// Returns the recorded answer to a request. One that did not come then does not come now; where another
    /// request was made then, the call ends.
    pub(crate) fn answered(
        &self,
        asked: &str,
    ) -> impl Future<Output = Result<Response<WasiBody>, Error>> + Send + use<> {
        let exchange = self.0.as_ref().and_then(|reel| reel.lock().exchange(asked));
        async move {
            match exchange.ok_or(Error::HttpProtocolError)?.response() {
                Some(response) => Ok(response),
                None => std::future::pending().await,
            }
        }
    }

    /// Keeps that a request is made, where answers are kept.
    pub(crate) fn request(&self, asked: String) -> Option<Track> {
        let mut track = None;
        self.keeps(|reel| {
            reel.weigh(&asked);
            track = Some(Track { tape: self.clone(), at: reel.recording.requests.len() });
            reel.recording.requests.push_back(Exchange { asked, ..Exchange::default() });
        });
        track
    }
}

impl Reel {
    /// Returns what was kept of the next request, where it is this one.
    fn exchange(&mut self, asked: &str) -> Option<Exchange> {
        let then = self.recording.requests.pop_front();
        let told = match &then {
            Some(exchange) if exchange.asked == asked => return then,
            Some(Exchange { asked: then, .. }) => {
                format!("`{then}` was requested then, and `{asked}` now")
            }
            None => format!("no more was requested then, and `{asked}` now"),
        };
        self.stop(&told);
        None
    }
}

impl Track {
    /// Keeps `answer`, and what is read of its body.
    pub(crate) fn kept(self, answer: Response<WasiBody>) -> Response<WasiBody> {
        let headers = answer.headers().iter();
        let headers = headers
            .map(|(name, value)| (name.to_string(), Blob(value.as_bytes().to_vec())))
            .collect::<Vec<_>>();
        let status = answer.status().as_u16();
        self.keeps(headers, |own, headers| own.head = Some((status, headers)));
        answer.map(|body| {
            let ended = self.clone();
            let end = stream::poll_fn(move |_| {
                ended.keeps((), |own, ()| own.is_whole = true);
                Poll::Ready(None)
            });
            let frames = BodyStream::new(body).inspect(move |frame| self.piece(frame));
            StreamBody::new(frames.chain(end)).boxed_unsync()
        })
    }

    /// Notes that no answer came, or no more of it, for a reason that no recording holds.
    pub(crate) fn lost(&self) {
        self.tape.give_up("a request over HTTP failed, which is not recorded");
    }

    fn piece(&self, frame: &Result<Frame<Bytes>, Error>) {
        match frame.as_ref().map(Frame::data_ref) {
            Ok(Some(piece)) => {
                self.keeps(Blob(piece.to_vec()), |own, piece| own.body.push_back(piece));
            }
            Ok(None) => {
                self.tape.give_up("an answer over HTTP had trailers, which are not recorded")
            }
            Err(_) => self.lost(),
        }
    }

    fn keeps<T: Serialize>(&self, it: T, keep: impl FnOnce(&mut Exchange, T)) {
        self.tape.keeps(|reel| {
            reel.weigh(&json!(it).to_string());
            if let Some(own) = reel.recording.requests.get_mut(self.at) {
                keep(own, it);
            }
        });
    }
}
