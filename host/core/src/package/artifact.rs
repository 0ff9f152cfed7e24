//! A component as an artifact of an OCI registry, in the layout that `wkg` and others share (CNCF,
//! "Wasm OCI Artifact layout"): a manifest, a small configuration, and one layer, which is the
//! component itself.
//!
//! Deliberately absent: indexes of several platforms, compressed layers, and what is not WebAssembly.

use serde_json::{Map, Value, json};

use crate::digest::{self, is_digest};
use crate::json as strict;
use crate::limits::REGISTRY_REASON_BYTES_MAX;
use crate::truncate;

/// The media type of a manifest.
pub const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of the configuration.
const CONFIG_TYPE: &str = "application/vnd.wasm.config.v0+json";
/// The media type of a component, and of any other WebAssembly.
const LAYER_TYPE: &str = "application/wasm";
/// The annotation of a layer that carries its minisign signature, as `.minisig` files have it.
const SIGNATURE_ANNOTATION: &str = "clawhost.minisig";
/// When every artifact was made: so that the same component is the same artifact, whoever pushes it.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// What the manifest says of the component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// `sha256:…` of the component.
    pub digest: String,
    /// Its length.
    pub bytes: u64,
    /// The text of its signature.
    pub signature: Option<String>,
}

/// What is known of the component that becomes an artifact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// It is a component, and no module of preview 1.
    pub is_component: bool,
    /// The names that it imports.
    pub imports: Vec<String>,
    /// The names that it exports.
    pub exports: Vec<String>,
}

/// The two small parts of an artifact; the third is the component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The configuration.
    pub config: Vec<u8>,
    /// The manifest.
    pub manifest: Vec<u8>,
}

/// Reads a manifest.
///
/// # Errors
/// It is none of an artifact of exactly one component; says what it is instead, in a sentence or two
/// however much a registry says of it.
pub fn read(manifest: &[u8]) -> Result<Layer, String> {
    layer(manifest).map_err(|why| truncate::text(&why, REGISTRY_REASON_BYTES_MAX).to_owned())
}

fn layer(manifest: &[u8]) -> Result<Layer, String> {
    let manifest = strict::parse(manifest).map_err(|error| error.to_string())?;
    if manifest.get("manifests").is_some() {
        return Err("it lists artifacts of several platforms; name one by its digest".to_owned());
    }
    let layers = strict::items(&manifest, "layers");
    let [layer] = layers else {
        return Err(format!("it has {} layers, and a component is one", layers.len()));
    };
    let kind = strict::text(layer, "mediaType");
    if kind != LAYER_TYPE {
        return Err(format!("its layer is not {LAYER_TYPE}, but {kind:?}"));
    }
    let digest = strict::text(layer, "digest").to_owned();
    let bytes = layer.get("size").and_then(Value::as_u64).filter(|_| is_digest(&digest));
    let bytes = bytes.ok_or("its layer has no sha256 digest or no size")?;
    let signature =
        layer.get("annotations").and_then(|all| all.get(SIGNATURE_ANNOTATION)?.as_str());
    Ok(Layer { digest, bytes, signature: signature.map(str::to_owned) })
}

impl Artifact {
    /// Returns the artifact of a component.
    pub fn new(component: &Layer, outline: &Outline) -> Self {
        let Outline { is_component, imports, exports } = outline;
        let mut config = Map::from_iter([
            ("created".to_owned(), CREATED.into()),
            ("architecture".to_owned(), "wasm".into()),
            ("os".to_owned(), if *is_component { "wasip2" } else { "wasip1" }.into()),
            ("layerDigests".to_owned(), json!([component.digest])),
        ]);
        if *is_component {
            let names = json!({"exports": exports, "imports": imports, "target": null});
            config.insert("component".to_owned(), names);
        }
        let config = Value::from(config).to_string().into_bytes();
        let mut layer = Map::from_iter([
            ("mediaType".to_owned(), LAYER_TYPE.into()),
            ("digest".to_owned(), component.digest.clone().into()),
            ("size".to_owned(), component.bytes.into()),
        ]);
        if let Some(signature) = &component.signature {
            layer.insert("annotations".to_owned(), json!({SIGNATURE_ANNOTATION: signature}));
        }
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": {
                "mediaType": CONFIG_TYPE,
                "digest": digest::of_bytes(&config),
                "size": config.len(),
            },
            "layers": [layer],
        });
        Self { config, manifest: manifest.to_string().into_bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(signature: Option<&str>) -> Layer {
        let digest = digest::of_bytes(b"\0asm");
        Layer { digest, bytes: 4, signature: signature.map(str::to_owned) }
    }

    #[test]
    fn what_is_made_is_read_and_the_same_again() {
        let outline =
            Outline { is_component: true, exports: vec!["a".to_owned()], imports: Vec::new() };
        for signature in [None, Some("line\nline")] {
            let made = Artifact::new(&layer(signature), &outline);
            assert_eq!(read(&made.manifest), Ok(layer(signature)));
            assert_eq!(made, Artifact::new(&layer(signature), &outline));
        }
    }

    #[test]
    fn the_configuration_is_what_other_clients_read() {
        let outline = Outline {
            is_component: true,
            imports: vec!["wasi:io/poll@0.2.0".to_owned()],
            exports: vec!["claw:tool/tool@0.1.0".to_owned()],
        };
        let config: Value =
            serde_json::from_slice(&Artifact::new(&layer(None), &outline).config).unwrap();
        assert_eq!(
            config,
            json!({
                "created": "1970-01-01T00:00:00Z", "architecture": "wasm", "os": "wasip2",
                "layerDigests": [layer(None).digest],
                "component": {
                    "imports": ["wasi:io/poll@0.2.0"], "exports": ["claw:tool/tool@0.1.0"],
                    "target": null,
                },
            })
        );
        let module = Artifact::new(&layer(None), &Outline::default());
        let config: Value = serde_json::from_slice(&module.config).unwrap();
        assert_eq!((&config["os"], config.get("component")), (&json!("wasip1"), None));
    }

    #[test]
    fn what_is_no_component_is_refused_with_what_it_is() {
        let of = |layers: Value| json!({"schemaVersion": 2, "layers": layers}).to_string();
        let digest = digest::of_bytes(b"");
        for (text, says) in [
            (String::new(), "not JSON"),
            (json!({"manifests": []}).to_string(), "several platforms"),
            (json!({"layers": 1}).to_string(), "0 layers"),
            (of(json!([])), "0 layers"),
            (of(json!([{}, {}])), "2 layers"),
            (of(json!([{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip"}])), "tar+gzip"),
            (of(json!([{"mediaType": "x".repeat(900_000)}])), "not application/wasm, but"),
            (of(json!([{"mediaType": "application/wasm", "size": 1}])), "no sha256"),
            (
                of(json!([{"mediaType": "application/wasm", "digest": "sha512:00", "size": 1}])),
                "no sha256",
            ),
            (
                of(json!([{"mediaType": "application/wasm", "digest": digest, "size": -1}])),
                "no size",
            ),
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(error.contains(says) && error.len() <= REGISTRY_REASON_BYTES_MAX, "{error}");
        }
    }
}
