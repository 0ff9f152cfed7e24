//! `clawhost man`: the manual pages, from the same words as `--help`.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clawhost_core::error::exit;

use super::args::Cli;
use super::fail::Fail;
use super::show;

/// Write the manual pages, one a verb, into a folder
///
/// The folder is made if it is not there; pages of an earlier version are replaced.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost man ~/.local/share/man/man1")]
pub(super) struct ManArgs {
    /// The folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(super) fn run(args: &ManArgs) -> Result<u8, Fail> {
    let folder = &args.folder;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
        .map_err(|error| Fail::unwritable(folder, &error))?;
    show::line(&format!("the manual pages are in {}", folder.display()));
    Ok(exit::OK)
}
