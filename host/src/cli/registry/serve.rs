//! `clawhost registry serve`: publish a folder on this machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use cap_std::fs::Dir;
use clap::Args;
use clawhost_core::error::exit;
use clawhost_core::limits::SHUTDOWN_GRACE_MS;

use super::super::fail::{Blame as _, Fail};
use super::super::{run, show};
use crate::serve::{Listed, Shutdown, list_registry, serve_registry};

/// Serve a folder of packages over HTTP, on this machine, to be read only
///
/// The folder holds <namespace>/<name>/<version>/document.yaml (or .json), and beside the document
/// of a Tool its component.wasm (or .wat). The document's metadata.name and metadata.version have
/// to be those of its folders. What is there is listed at the start, with what is wrong with it;
/// files are read anew for each request. To publish to other machines, put a proxy with TLS in
/// front.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost registry serve ./published --address 127.0.0.1:7334")]
pub(in crate::cli) struct ServeRegistryArgs {
    /// The folder that holds the packages
    #[arg(id = "folder", value_name = "DIR")]
    directory: PathBuf,
    /// Listen here; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7334")]
    address: SocketAddr,
}

pub(super) async fn serve(args: &ServeRegistryArgs) -> Result<u8, Fail> {
    let shown = args.directory.display();
    let dir = Dir::open_ambient_dir(&args.directory, cap_std::ambient_authority());
    let dir = dir.map_err(|error| {
        Fail::usage_at(&args.directory, error, "name the folder that holds the packages")
    })?;
    let listed = list_registry(&dir).or_fail(exit::INTERNAL)?;
    let grace = Duration::from_millis(SHUTDOWN_GRACE_MS);
    let shutdown = Shutdown { told: run::stop_signal(), grace };
    let server = serve_registry(dir, args.address, shutdown).await;
    let server =
        server.map_err(|error| run::cannot_listen(args.address, &error, "--address ADDR"))?;
    let address = server.local_addr;
    show::line(&format!("publishing {shown} on http://{address}"));
    show::line(&told(&listed));
    show::line(&format!(
        "\nput this into a host's clawhost.yaml:\nregistries:\n  - {{ name: local, url: \"http://{address}\" }}"
    ));
    server.task.await.or_fail(exit::INTERNAL)?;
    Ok(exit::OK)
}

fn told(listed: &[Listed]) -> String {
    if listed.is_empty() {
        return "no packages yet: <namespace>/<name>/<version>/document.yaml".to_owned();
    }
    let lines = listed.iter().map(|Listed { place, wrong }| match wrong {
        None => format!("  {place}"),
        Some(why) => format!("  {place}  NOT SERVED: {why}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}
