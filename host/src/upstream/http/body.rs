//! An answer's body: bounded in bytes and in time, and the owner of its connection.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;

use super::client::Permits;
use super::connect::Driver;
use super::{RequestLimits, UpstreamError};

/// The body of an answer, as it comes off the wire: nothing is decompressed.
///
/// It closes its connection when it ends, fails or is dropped.
#[derive(Debug)]
pub struct ResponseBody {
    // Nothing once the body has ended: the connection and its permits go back at once, even
    // if somebody keeps the body.
    live: Option<Live>,
}

#[derive(Debug)]
struct Live {
    incoming: Incoming,
    bytes_left: u64,
    limits: RequestLimits,
    timer: Pin<Box<Sleep>>,
    waiting: bool,
    _driver: Driver,
    _permits: Permits,
}

impl ResponseBody {
    pub(super) fn new(
        incoming: Incoming,
        driver: Driver,
        permits: Permits,
        limits: &RequestLimits,
    ) -> Self {
        let live = Live {
            incoming,
            bytes_left: limits.body_bytes_max,
            limits: *limits,
            timer: Box::pin(tokio::time::sleep_until(limits.deadline.into())),
            waiting: false,
            _driver: driver,
            _permits: permits,
        };
        Self { live: Some(live).filter(|live| !live.incoming.is_end_stream()) }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = UpstreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
        let Some(live) = self.live.as_mut() else {
            return Poll::Ready(None);
        };
        let polled = live.poll(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.live = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.live.as_ref().is_none_or(|live| live.incoming.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.live.as_ref().map_or_else(|| SizeHint::with_exact(0), |live| live.incoming.size_hint())
    }
}

impl Live {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
        match Pin::new(&mut self.incoming).poll_frame(cx) {
            Poll::Pending => self.poll_timer(cx).map(|error| Some(Err(error))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(self.admit(frame))),
        }
    }

    /// Waits for the next piece; the time counts only while somebody waits for it.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<UpstreamError> {
        if !self.waiting {
            self.waiting = true;
            let until = self.limits.at_most(self.limits.between_bytes);
            self.timer.as_mut().reset(until.into());
        }
        self.timer.as_mut().poll(cx).map(|()| self.limits.expired(UpstreamError::ReadTimeout))
    }

    fn admit(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, UpstreamError> {
        self.waiting = false;
        if Instant::now() >= self.limits.deadline {
            return Err(UpstreamError::Deadline);
        }
        let bytes = frame.data_ref().map_or(0, Buf::remaining) as u64;
        let too_large = || UpstreamError::BodyTooLarge { bytes_max: self.limits.body_bytes_max };
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or_else(too_large)?;
        Ok(frame)
    }
}
