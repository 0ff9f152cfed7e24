//! The command line, for tests that run it as a program.

use std::process::ExitCode;

fn main() -> ExitCode {
    clawhost::cli::main()
}
