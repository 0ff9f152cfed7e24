//! Running a verb to its end, and what people see while it takes long.

use std::borrow::Cow;
use std::future::Future;
use std::io::IsTerminal as _;
use std::time::Duration;

use clawhost_core::error::exit;

use crate::cli::fail::Fail;

/// Making a host is silent when it is quick, and shows that it works when it is not.
const SILENT_FOR: Duration = Duration::from_secs(1);
pub(super) const SPINNER_TICK: Duration = Duration::from_millis(100);
/// Turns of tasks between two looks at sockets and pipes (tokio's own number is 61).
const TURNS_PER_LOOK: u32 = 8;

/// Awaits `work`; where it takes longer than a second and a person watches, says what it is.
pub(in crate::cli) async fn patiently<T>(
    what: impl Into<Cow<'static, str>>,
    work: impl Future<Output = T>,
) -> T {
    if !std::io::stderr().is_terminal() {
        return work.await;
    }
    let mut work = std::pin::pin!(work);
    if let Ok(done) = tokio::time::timeout(SILENT_FOR, work.as_mut()).await {
        return done;
    }
    let spinner = indicatif::ProgressBar::new_spinner().with_message(what);
    match in_a_line(&spinner) {
        Some(line) => eprintln!("{line}"),
        None => spinner.enable_steady_tick(SPINNER_TICK),
    }
    let done = work.await;
    spinner.finish_and_clear();
    done
}

/// Returns what a spinner says where it is not shown: a terminal that cannot take back what it wrote gets a line.
fn in_a_line(spinner: &indicatif::ProgressBar) -> Option<String> {
    spinner.is_hidden().then(|| spinner.message())
}

/// Lets a write beyond the limit on the size of files (`ulimit -f`) fail as on a full disk does; unheeded, its signal
/// ends the process.
fn heed_file_limit() {
    let signal = tokio::signal::unix::SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    if let Err(error) = tokio::signal::unix::signal(signal) {
        tracing::warn!("a limit on the size of files ends the host: {error}");
    }
}

/// Runs one verb to its end.
pub(in crate::cli) fn block_on<T>(work: impl Future<Output = Result<T, Fail>>) -> Result<T, Fail> {
    // Guests take turns as tasks; sockets and pipes are looked at after a few of them.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .event_interval(TURNS_PER_LOOK)
        .build();
    let runtime =
        runtime.map_err(|error| Fail::new(exit::UPSTREAM, format!("no runtime: {error}")))?;
    let done = runtime.block_on(async {
        heed_file_limit();
        work.await
    });
    // A read of standard input that never ends must not keep the process.
    runtime.shutdown_background();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_that_shows_no_spinner_gets_a_line() {
        let hidden = indicatif::ProgressBar::hidden().with_message("preparing tools");
        assert_eq!(in_a_line(&hidden).as_deref(), Some("preparing tools"));
    }
}
