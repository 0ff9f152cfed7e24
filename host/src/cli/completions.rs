//! `clawhost completions`: what a shell needs to complete a command line.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use clawhost_core::error::exit;

use super::args::Cli;
use super::fail::Fail;
use super::show;

/// Print what your shell needs to complete verbs and options
///
/// Put it where your shell looks for completions, as the examples do.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  clawhost completions bash > ~/.local/share/bash-completion/completions/clawhost\n  clawhost completions fish > ~/.config/fish/completions/clawhost.fish"
)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> Result<u8, Fail> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "clawhost", &mut script);
    show::line(String::from_utf8_lossy(&script).trim_end());
    Ok(exit::OK)
}
