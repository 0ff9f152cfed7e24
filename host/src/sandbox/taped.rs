//! Clocks and random numbers of a call whose answers are kept or played.

use std::convert::Infallible;
use std::time::Duration;

use rand_core::{Rng, TryRng};
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::clocks::{HostMonotonicClock, HostWallClock, MonotonicClock, WallClock};
use wasmtime_wasi::random::thread_rng;

use crate::recording::{Blob, Tape};

/// Has `tape` keep or play what `wasi` answers; where it does neither, `wasi` answers by itself.
pub(super) fn tape(wasi: &mut WasiCtxBuilder, tape: &Tape) {
    if tape.is_off() {
        return;
    }
    let taped = || tape.clone();
    let numbers = || Taped { tape: taped(), live: thread_rng() };
    wasi.wall_clock(Taped { tape: taped(), live: WallClock::new() })
        .monotonic_clock(Taped { tape: taped(), live: MonotonicClock::new() })
        .secure_random(numbers())
        .insecure_random(numbers());
    // As two numbers: not every reader of JSON has longer ones.
    let seed = tape.now("seed", [0, 0], || [0; 2].map(|_: u64| thread_rng().next_u64()));
    wasi.insecure_random_seed(u128::from(seed[0]) << u64::BITS | u128::from(seed[1]));
}

struct Taped<T> {
    tape: Tape,
    live: T,
}

impl HostWallClock for Taped<WallClock> {
    fn resolution(&self) -> Duration {
        self.tape.now("wall-clock resolution", Duration::ZERO, || self.live.resolution())
    }

    fn now(&self) -> Duration {
        self.tape.now("wall-clock", Duration::ZERO, || self.live.now())
    }
}

impl HostMonotonicClock for Taped<MonotonicClock> {
    fn resolution(&self) -> u64 {
        self.tape.now("monotonic-clock resolution", 0, || self.live.resolution())
    }

    fn now(&self) -> u64 {
        self.tape.now("monotonic-clock", 0, || self.live.now())
    }
}

impl TryRng for Taped<Box<dyn Rng + Send>> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.tape.now("random u32", 0, || self.live.next_u32()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.tape.now("random u64", 0, || self.live.next_u64()))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        let Blob(kept) =
            self.tape.now(format_args!("random {}", bytes.len()), Blob::default(), || {
                let mut random = vec![0; bytes.len()];
                self.live.fill_bytes(&mut random);
                Blob(random)
            });
        // A shorter answer is one that is lost: the guest is ended for it.
        bytes.iter_mut().zip(kept).for_each(|(byte, kept)| *byte = kept);
        Ok(())
    }
}
