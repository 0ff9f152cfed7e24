//! Core modules made components that offer tools, by the contract in `wit/`.

use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

/// A tool's world with these imports.
pub struct World {
    pub resolve: Resolve,
    pub id: WorldId,
}

impl World {
    /// Returns the world that imports `interfaces` and exports a tool.
    pub fn with(interfaces: &[&str]) -> Self {
        let wit =
            Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("wit"));
        let wit = wit.into_iter().find(|folder| folder.join("tool.wit").is_file());
        let mut resolve = Resolve::default();
        resolve.push_dir(wit.expect("the contract is in the source tree")).expect("it is sound");
        let imports: String = interfaces.iter().map(|name| format!("import {name};\n")).collect();
        let text =
            format!("package claw:fuzz;\nworld fuzz {{\n{imports}export claw:tool/tool@0.1.0;\n}}");
        let package = resolve.push_str("fuzz.wit", &text).expect("the interfaces are known");
        let id = resolve.select_world(&[package], None).expect("there is one world");
        Self { resolve, id }
    }

    /// Returns the component of `module`, or nothing where it does not fit the world.
    pub fn component(&self, mut module: Vec<u8>) -> Option<Vec<u8>> {
        embed_component_metadata(&mut module, &self.resolve, self.id, StringEncoding::UTF8).ok()?;
        // The host looks at it, and it alone.
        ComponentEncoder::default().validate(false).module(&module).ok()?.encode().ok()
    }
}
