//! One call's time: a deadline on the wall clock and a budget of fuel.
//!
//! Fuel is also the clock: guests yield every [`FUEL_YIELD_INTERVAL`] units, and [`watch`]
//! looks at the time on every poll but the first. Host calls look at it when they are entered.
//!
//! [`FUEL_YIELD_INTERVAL`]: clawhost_core::limits::FUEL_YIELD_INTERVAL

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use clawhost_core::error::Limit;
use clawhost_core::limits::{FUEL_PER_HOST_CALL, FUEL_PER_MS, HOST_CALLS_TURN_US};

const HOST_CALLS_TURN: Duration = Duration::from_micros(HOST_CALLS_TURN_US);

/// Which bound ended a call; the `data.limit` of its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    /// Calls of other tools after all that the profile grants were made.
    Calls,
    /// The fuel budget of `timeout_ms`.
    Fuel,
    /// Handles open at once.
    Handles,
    /// Linear memory.
    Memory,
    /// Bytes lifted out of the guest, or its result.
    Output,
    /// Random bytes of one request.
    Random,
    /// Time to instantiate, before the call's own clock.
    Startup,
    /// Table elements or instances.
    Table,
    /// Wall time.
    Time,
}

clawhost_core::table! {
    /// Returns what `data.limit` says.
    pub Exceeded::limit: Limit {
        Calls: Limit::ToolCalls, Fuel: Limit::Fuel, Handles: Limit::OpenFiles,
        Memory: Limit::MemoryMb, Output: Limit::OutputBytes, Random: Limit::RandomBytes,
        Startup: Limit::Startup, Table: Limit::TableElements, Time: Limit::Timeout,
    }
}

impl std::fmt::Display for Exceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the limit {} was exceeded", self.limit())
    }
}

impl std::error::Error for Exceeded {}

/// When a call has to end, on the wall clock and in fuel.
#[derive(Debug, Clone, Copy)]
pub struct CallClock {
    ends_at: Instant,
    fuel_budget: u64,
    fuel_charged: u64,
    yielded_at: Instant,
}

impl CallClock {
    /// Starts the clock now, with `timeout` and the fuel that it buys.
    pub fn start(timeout: Duration) -> Self {
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let fuel_budget = timeout_ms.saturating_mul(FUEL_PER_MS);
        let now = Instant::now();
        Self { ends_at: now + timeout, fuel_budget, fuel_charged: 0, yielded_at: now }
    }

    /// Returns the moment the call has to end.
    pub fn ends_at(&self) -> Instant {
        self.ends_at
    }

    /// Returns the fuel the guest starts with.
    pub fn fuel_budget(&self) -> u64 {
        self.fuel_budget
    }

    /// Charges the work of entering a host call, and whatever the host did for the guest.
    ///
    /// # Errors
    /// [`Exceeded::Time`] or [`Exceeded::Fuel`]; the guest is then trapped.
    pub fn enter_host_call(&mut self, work: u64, fuel_left: u64) -> Result<(), Exceeded> {
        self.fuel_charged =
            self.fuel_charged.saturating_add(FUEL_PER_HOST_CALL).saturating_add(work);
        if Instant::now() >= self.ends_at {
            return Err(Exceeded::Time);
        }
        if self.fuel_charged > fuel_left { Err(Exceeded::Fuel) } else { Ok(()) }
    }

    /// Says whether the call has made host calls for so long that others should run first.
    pub fn owes_yield(&self) -> bool {
        self.yielded_at.elapsed() >= HOST_CALLS_TURN
    }

    /// Notes that others have run.
    pub fn yielded(&mut self) {
        self.yielded_at = Instant::now();
    }

    /// Returns the fuel a call has used in all, given what the guest has left.
    pub fn fuel_used(&self, fuel_left: u64) -> u64 {
        self.fuel_budget.saturating_sub(fuel_left).saturating_add(self.fuel_charged)
    }
}

/// Runs `work` until it is done or `ends_at` has come, looking at the clock on each poll but the first.
///
/// # Errors
/// [`Exceeded::Time`]; `work` is dropped then, and whatever it was using must not be used
/// again: a guest may have been stopped anywhere.
pub async fn watch<F: Future>(ends_at: Instant, work: F) -> Result<F::Output, Exceeded> {
    let mut work = pin!(work);
    let mut alarm = pin!(None);
    std::future::poll_fn(|cx| {
        if alarm.is_some() && Instant::now() >= ends_at {
            return Poll::Ready(Err(Exceeded::Time));
        }
        if let Poll::Ready(output) = work.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        // What is done when it is first looked at, as most is, needs no alarm.
        if alarm.is_none() {
            alarm.set(Some(tokio::time::sleep_until(ends_at.into())));
        }
        let alarm = alarm.as_mut().as_pin_mut();
        alarm.map_or(Poll::Pending, |alarm| alarm.poll(cx).map(|()| Err(Exceeded::Time)))
    })
    .await
}
