//! From the command line to the verb that it names, and to the exit code.

use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use clawhost_core::error::exit;
use clawhost_core::visible;

use super::advice::advised;
use super::args::{Cli, Verb};
use super::fail::Fail;
use super::{
    approvals, attack, audit, call, compile, completions, compose, discover, doctor, explain,
    import, inspect, learn, limits, log, man, new, pins, proxy, pull, push, quarantine, registry,
    replay, run, secrets, setup, show, stats, switch, tools, validate, wrap,
};
use crate::engine::{LoadError, compiler};

/// Runs the command line and returns its exit code (see [`clawhost_core::error::exit`]).
pub fn main() -> ExitCode {
    if let Some(components) = compiler::asked(std::env::args_os()) {
        return ExitCode::from(compiler_for(components));
    }
    let cli = Cli::try_parse().unwrap_or_else(|error| visibly(error).exit());
    let filter = match cli.verb {
        // What hostile guests log on purpose is no news.
        Verb::Attack(_) => "off",
        // A verb that prints what was refused need not log it too.
        Verb::Compose(_)
        | Verb::Doctor(_)
        | Verb::Inspect(_)
        | Verb::Learn(_)
        | Verb::Replay(_)
        | Verb::Tools(_)
        | Verb::Validate(_) => "error",
        // What the program says to its operator is as wrap's own word.
        Verb::Wrap(_) => {
            "warn,rmcp=error,rmcp::service=off,clawhost::upstream::mcp::complaints=info"
        }
        // The protocol library warns of every refused call; the audit log has those. That an answer finds
        // nobody any more is an error to it, and no defect.
        _ => "warn,rmcp=error,rmcp::service=off",
    };
    log::start(cli.verbose, filter);
    let outcome = enter(cli.directory.as_deref()).and_then(|()| dispatch(cli));
    let outcome = outcome.and_then(show::whole);
    log::flush();
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(fail) => {
            fail.print();
            ExitCode::from(fail.code())
        }
    }
}

/// Compiles for a host that started this program for that, and returns the exit code.
fn compiler_for(components: compiler::IsP3) -> u8 {
    let (code, reason) = match compiler::serve(components) {
        Ok(()) => return exit::OK,
        Err(LoadError::Unusable(reason)) => (exit::DOCUMENT, reason),
        Err(LoadError::Passing(reason)) => (exit::UPSTREAM, reason),
    };
    eprintln!("{reason}");
    code
}

/// Returns what is wrong with the command line without what could drive a terminal: clap quotes words as
/// they are, and says the same of words that were made visible.
fn visibly(error: clap::Error) -> clap::Error {
    let words = std::env::args_os().map(|word| visible::line(&word.to_string_lossy()));
    let words: Vec<String> = words.collect();
    advised(Cli::try_parse_from(&words).err().unwrap_or(error), &words)
}

fn enter(directory: Option<&Path>) -> Result<(), Fail> {
    let Some(directory) = directory else { return Ok(()) };
    std::env::set_current_dir(directory).map_err(|error| {
        let hint = "name a directory that is there with --directory DIR";
        Fail::usage_at(directory, error, hint)
    })
}

fn dispatch(cli: Cli) -> Result<u8, Fail> {
    match cli.verb {
        Verb::Approvals(args) => setup::block_on(approvals::run(args)),
        Verb::Attack(args) => setup::block_on(attack::run(args)),
        Verb::Audit(args) => audit::run(&args),
        Verb::Call(args) => setup::block_on(call::run(args)),
        Verb::Compile(args) => compile::run(&args),
        Verb::Completions(args) => completions::run(&args),
        Verb::Compose(args) => setup::block_on(compose::run(args)),
        Verb::Disable(args) => setup::block_on(switch::disable(args)),
        Verb::Discover(args) => setup::block_on(discover::run(args)),
        Verb::Doctor(args) => setup::block_on(doctor::run(args)),
        Verb::Enable(args) => setup::block_on(switch::enable(args)),
        Verb::Explain(args) => setup::block_on(explain::run(args)),
        Verb::Import(args) => import::run(&args),
        Verb::Inspect(args) => setup::block_on(inspect::run(args)),
        Verb::Learn(args) => setup::block_on(learn::run(args)),
        Verb::Limits(args) => limits::run(&args),
        Verb::Man(args) => man::run(&args),
        Verb::New(args) => new::run(&args),
        Verb::Pins(args) => setup::block_on(pins::run(args)),
        Verb::Proxy(args) => setup::block_on(proxy::run(args)),
        Verb::Pull(args) => setup::block_on(pull::run(args)),
        Verb::Push(args) => setup::block_on(push::run(args)),
        Verb::Quarantine(args) => setup::block_on(quarantine::run(args)),
        Verb::Registry(args) => setup::block_on(registry::run(args)),
        Verb::Replay(args) => setup::block_on(replay::run(args)),
        Verb::Run(args) => setup::block_on(run::run(args)),
        Verb::Secrets(args) => secrets::run(&args),
        Verb::Stats(args) => setup::block_on(stats::run(args)),
        Verb::Tools(args) => setup::block_on(tools::run(args)),
        Verb::Validate(args) => setup::block_on(validate::run(args)),
        Verb::Wrap(args) => setup::block_on(wrap::run(args)),
    }
}
