//! The built-in tools as WebAssembly components, built from `guest-tools/` by this package's
//! build script.
//!
//! There are deliberately no `.wasm` files in the repository: what runs is what the sources
//! beside it say.

/// One built-in component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Artifact {
    /// The name of its folder in `guest-tools/`.
    pub name: &'static str,
    /// The component.
    pub bytes: &'static [u8],
    /// `sha256:` and the lower-case hex digest of `bytes`.
    pub digest: &'static str,
}

/// All built-in components, in a fixed order.
pub const BUILT_IN: &[Artifact] = include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

#[cfg(test)]
#[path = "../build/clean.rs"]
mod clean;

#[cfg(test)]
mod tests {
    use super::*;
    use wasmparser::{Parser, Payload};

    /// Those that are here with the feature `interpreters`.
    const INTERPRETERS: [&str; 3] = ["js", "python", "code"];

    /// What each component imports, without versions: the whole of what it asks for.
    fn imports(artifact: &Artifact) -> Vec<String> {
        let mut found = Vec::new();
        let mut depth = 0;
        for payload in Parser::new(0).parse_all(artifact.bytes) {
            match payload.unwrap() {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth -= 1,
                Payload::ComponentImportSection(section) if depth == 0 => {
                    for import in section {
                        let name = import.unwrap().name.name;
                        found.push(name.split('@').next().unwrap().to_owned());
                    }
                }
                _ => {}
            }
        }
        found.sort();
        found
    }

    fn artifact(name: &str) -> &'static Artifact {
        BUILT_IN.iter().find(|artifact| artifact.name == name).unwrap()
    }

    #[test]
    fn each_component_imports_what_its_tools_need_and_nothing_else() {
        let files = [
            "claw:host/log", "wasi:clocks/wall-clock", "wasi:filesystem/preopens",
            "wasi:filesystem/types",
        ];
        let web = [
            "claw:host/log", "wasi:cli/environment", "wasi:http/outgoing-handler",
            "wasi:http/types", "wasi:io/error", "wasi:io/poll", "wasi:io/streams",
        ];
        // Its edits wait for each other.
        let editing = ["wasi:clocks/monotonic-clock"];
        let editing = [&files[..1], &editing, &files[1..], &["wasi:io/poll"]].concat();
        assert_eq!(imports(artifact("file-io")), editing);
        // They append through a stream.
        let appending = [&files[..], &["wasi:io/error", "wasi:io/streams"]].concat();
        assert_eq!(imports(artifact("memory")), appending);
        // Its files are those that `bash_exec` writes before it runs.
        let programs = [&files[..1], &["claw:host/process"], &files[1..]].concat();
        assert_eq!(imports(artifact("exec")), programs);
        assert_eq!(imports(artifact("web-fetch")), web);
        for (component, interface) in
            [("key-value", "memory"), ("message", "channels"), ("models", "models")]
        {
            let one = format!("claw:host/{interface}");
            assert!(
                imports(artifact(component))
                    .iter()
                    .all(|import| *import == one || import == "claw:host/log")
            );
            assert!(imports(artifact(component)).contains(&one), "{component}");
        }
        for component in ["calculator", "sim"] {
            assert_eq!(imports(artifact(component)), ["claw:host/log"], "{component}");
        }
        let clocks = ["wasi:clocks/monotonic-clock", "wasi:clocks/wall-clock"];
        let shell = [&files[..1], &clocks[..], &appending[2..]].concat();
        assert_eq!(imports(artifact("shell")), shell);
        let inert = [&["claw:host/log"], &clocks[..], &["wasi:random/random"]].concat();
        for interpreter in BUILT_IN.iter().filter(|one| INTERPRETERS.contains(&one.name)) {
            let mut expected = inert.clone();
            if interpreter.name == "code" {
                expected.insert(1, "claw:host/tools");
            }
            assert_eq!(imports(interpreter), expected, "{}", interpreter.name);
        }
    }

    #[test]
    fn each_component_is_there_once_with_its_digest() {
        let names: Vec<_> = BUILT_IN.iter().map(|artifact| artifact.name).collect();
        assert_eq!(
            names,
            [
                "file-io", "exec", "web-fetch", "memory", "calculator", "key-value", "models",
                "message", "sim", "shell"
            ]
            .into_iter()
            .chain(INTERPRETERS.into_iter().filter(|_| cfg!(feature = "interpreters")))
            .collect::<Vec<_>>()
        );
        for artifact in BUILT_IN {
            assert!(artifact.bytes.starts_with(b"\0asm\x0d\0\x01\0"), "{}", artifact.name);
            let hex = artifact.digest.strip_prefix("sha256:").unwrap();
            assert!(hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()), "{hex}");
        }
    }

    #[test]
    fn no_component_names_a_folder_of_the_machine_that_built_it() {
        let here = env!("CARGO_MANIFEST_DIR").as_bytes();
        for artifact in BUILT_IN {
            assert!(!artifact.bytes.windows(here.len() - 10).any(|part| here.starts_with(part)));
        }
    }

    /// The guests are a workspace of their own, which a test of this one does not enter.
    #[test]
    fn the_sdk_and_the_built_in_tools_pass_their_own_tests() {
        let run = clean::cargo()
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .args(["test", "--locked", "--quiet", "--workspace", "--target-dir"])
            .arg(concat!(env!("OUT_DIR"), "/guests"))
            .output()
            .unwrap();
        let said =
            [run.stdout, run.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(run.status.success(), "{}", said.concat());
    }
}
