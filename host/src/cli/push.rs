//! `clawhost push`: a component to an OCI registry, for `clawhost pull`, `wkg` and others.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use clawhost_core::digest;
use clawhost_core::error::exit;
use clawhost_core::limits::{COMPONENT_BYTES_MAX, SIGNATURE_BYTES_MAX};
use clawhost_core::package::artifact::{Artifact, Layer};
use clawhost_core::package::{OciReference, Reference, SIGNATURE_ENDING, Version};
use serde_json::json;

use super::args::StateArgs;
use super::fail::Fail;
use super::{setup, show};
use crate::distribution::{Registry, Trouble, outline};
use crate::regular;

/// Publish a component in an OCI registry
///
/// FILE becomes an artifact of the layout that wkg and others read too. A signature beside it, made
/// with `minisign -S -m FILE`, goes along. The same file is the same artifact each time. A tag that
/// means something else already is left as it is.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: clawhost push target/greet.wasm oci://oci.example.com/example/greet:1.0.0"
)]
pub(super) struct PushArgs {
    /// The component, in binary form
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// oci://host[:port]/repository:tag
    #[arg(value_name = "REFERENCE")]
    reference: String,
    /// Let a tag mean this that means something else
    #[arg(long)]
    update: bool,
    /// Ask what the tag means, and send nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: StateArgs,
}

pub(super) async fn run(args: PushArgs) -> Result<u8, Fail> {
    let reference = read_reference(&args.reference)?;
    let (bytes, layer, artifact) = read(&args.file)?;
    let manifest = digest::of_bytes(&artifact.manifest);
    let settings = setup::config(&[], args.common.config.as_deref())?;
    let distribution = setup::distribution(&settings, args.common.state.as_deref())?;
    let mut registry = distribution.registry(&reference, "pull,push")?;
    let before = registry.manifest().await?.map(|(_, digest)| digest);
    let is_new = before.as_ref() != Some(&manifest);
    if let Some(before) = before.filter(|_| is_new && !args.update) {
        let reason = format!("{reference} is {before} already, and would be {manifest}");
        let hint = "choose another tag; `--update` moves this one";
        return Err(Trouble::Refused { reason, hint }.into());
    }
    if is_new && !args.dry_run {
        let sending = send(&mut registry, bytes, artifact);
        setup::patiently(format!("sending {reference}"), sending).await?;
    }
    let exactly = reference.at(&manifest).to_string();
    let said = || {
        json!({
            "reference": reference.to_string(), "source": exactly, "digest": layer.digest,
            "bytes": layer.bytes, "signed": layer.signature.is_some(),
            "sent": is_new && !args.dry_run,
        })
    };
    let what = match (args.dry_run, is_new) {
        (_, false) => "is there already:",
        (true, true) => "would push",
        (false, true) => "pushed",
    };
    let signed = if layer.signature.is_some() { "with its signature" } else { "unsigned" };
    let digest = &layer.digest;
    show::done(args.common.json, said, || {
        format!("{what} {exactly}\n  tag     {reference}\n  digest  {digest}, {signed}")
    })
}

async fn send(registry: &mut Registry<'_>, bytes: Bytes, made: Artifact) -> Result<(), Trouble> {
    registry.put_blob(bytes).await?;
    registry.put_blob(made.config.into()).await?;
    registry.put_manifest(made.manifest.into()).await
}

fn read_reference(text: &str) -> Result<OciReference, Fail> {
    let hint = "write oci://host[:port]/repository:tag";
    match Reference::parse(text).map_err(|why| Fail::usage(format!("{text:?}: {why}"), hint))? {
        Reference::Oci(oci) if matches!(oci.version, Version::Tag(_)) => Ok(oci),
        _ => Err(Fail::usage(format!("nothing can be pushed to {text:?}"), hint)),
    }
}

/// Reads the component and makes the rest of the artifact.
fn read(file: &Path) -> Result<(Bytes, Layer, Artifact), Fail> {
    let bytes = setup::read_file(file)?;
    let unsound = |why: String| Fail::new(exit::DOCUMENT, format!("{}: {why}", file.display()));
    if bytes.len() as u64 > COMPONENT_BYTES_MAX {
        return Err(unsound(format!("it has more than {COMPONENT_BYTES_MAX} bytes")));
    }
    let outline = outline(&bytes).map_err(unsound)?;
    let mut beside = file.as_os_str().to_owned();
    beside.push(SIGNATURE_ENDING);
    let signature = match regular::read(Path::new(&beside), SIGNATURE_BYTES_MAX) {
        Ok(text) if text.len() as u64 <= SIGNATURE_BYTES_MAX => Some(String::from_utf8(text)),
        Ok(_) => return Err(unsound("its signature is too long".to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(unsound(format!("its signature: {error}"))),
    };
    let signature =
        signature.transpose().map_err(|_| unsound("its signature is no text".to_owned()))?;
    let (digest, length) = (digest::of_bytes(&bytes), bytes.len() as u64);
    let layer = Layer { digest, bytes: length, signature };
    let artifact = Artifact::new(&layer, &outline);
    Ok((bytes.into(), layer, artifact))
}
