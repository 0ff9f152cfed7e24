//! `clawhost registry serve`: publish a folder on this machine.

use std::time::Duration;

use cap_std::fs::Dir;
use clawhost_core::error::exit;
use clawhost_core::limits::SHUTDOWN_GRACE_MS;

use super::args::{RegistryArgs, RegistryVerb, ServeRegistryArgs};
use super::fail::Fail;
use super::{run, show};
use crate::serve::{Shutdown, serve_registry};

pub(super) async fn run(args: RegistryArgs) -> Result<u8, Fail> {
    match args.verb {
        RegistryVerb::Serve(args) => serve(&args).await,
    }
}

async fn serve(args: &ServeRegistryArgs) -> Result<u8, Fail> {
    let shown = args.directory.display();
    let dir = Dir::open_ambient_dir(&args.directory, cap_std::ambient_authority());
    let dir = dir.map_err(|error| {
        Fail::usage(format!("{shown}: {error}"), "name the folder that holds the packages")
    })?;
    let grace = Duration::from_millis(SHUTDOWN_GRACE_MS);
    let shutdown = Shutdown { told: run::stop_signal(), grace };
    let server = serve_registry(dir, args.address, shutdown).await.map_err(|error| {
        Fail::usage(
            format!("nothing can be published on {}: {error}", args.address),
            "choose a loopback address with --address ADDR",
        )
    })?;
    let address = server.local_addr;
    show::line(&format!("publishing {shown} on http://{address}"));
    show::line(&format!(
        "\nput this into a host's clawhost.yaml:\nregistries:\n  - {{ name: local, url: \"http://{address}\" }}"
    ));
    server.task.await.map_err(|error| Fail::new(exit::INTERNAL, error))?;
    Ok(exit::OK)
}
