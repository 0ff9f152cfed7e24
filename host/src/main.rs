//! The `clawhost` binary.

fn main() -> std::process::ExitCode {
    clawhost::cli::main()
}
