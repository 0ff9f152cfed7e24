//! Tools that come without a component: those of the program that the host is part of, composites, which
//! definition files describe, and the host's own, which find and call others and read on in results.

use std::sync::Arc;

use clawhost_core::catalog::{Annotations, CALL_TOOL, Origin, ToolDefinition};
use clawhost_core::composite::Composite;
use clawhost_core::limits::FIND_TOOLS_MAX;
use clawhost_core::manifest::{CatalogMode, Manifest, ToolBinding};
use serde_json::{Value, json};

use super::offer::Offered;
use super::{ToolCode, services};
use crate::engine::Schemas;
use crate::native::{Native, NativeTools};

/// One of them, ready to be bound.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    pub(super) origin: Origin,
    pub(super) code: ToolCode,
    pub(super) offered: Offered,
}

/// A tool of the host itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnTool {
    /// Calls another tool: the call is that tool's and nothing else, or made within its own where it is asked about.
    CallTool,
    /// Finds the tools that fit a few words.
    FindTool,
    /// Reads a page of a result that was cut.
    ReadResult,
}

impl Own {
    /// Returns the embedding program's tools, those of the host's own that `manifest` asks for, and
    /// composites.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub(crate) fn all(
        tools: &NativeTools,
        manifest: &Manifest,
        schemas: &Schemas,
    ) -> Result<Vec<Self>, String> {
        let native = tools.list()?.into_iter().map(|native| Self::native(native, schemas));
        let searched = manifest.catalog == CatalogMode::Search;
        let own = [
            (OwnTool::CallTool, searched),
            (OwnTool::FindTool, searched),
            (OwnTool::ReadResult, !manifest.keeps.is_empty()),
        ];
        let own = own.into_iter().filter(|(_, is_wanted)| *is_wanted);
        let composites = manifest.governance.composites();
        let composites = composites.map(|composite| Self::composite(composite, manifest, schemas));
        let services = services::offered(&manifest.services, schemas)?;
        let own = own.map(|(tool, _)| Self::host(tool, schemas));
        native.chain(own).chain(composites).chain(services).collect()
    }

    fn native(native: Native, schemas: &Schemas) -> Result<Self, String> {
        let offered = Offered::new(&native.definition, schemas)?;
        let offered = Offered { ckp_name: native.ckp_name.clone(), ..offered };
        let origin = Origin::Native { provider: native.provider().to_owned() };
        Ok(Self { origin, code: ToolCode::Native(Arc::new(native)), offered })
    }

    /// Returns what it is made of, where that is other tools.
    pub(super) fn as_composite(&self) -> Option<&Arc<Composite>> {
        if let ToolCode::Composite(composite) = &self.code { Some(composite) } else { None }
    }

    pub(super) fn composite(
        composite: &Arc<Composite>,
        manifest: &Manifest,
        schemas: &Schemas,
    ) -> Result<Self, String> {
        let Composite { name, description, input_schema, file, timeout, .. } = &**composite;
        let definition = ToolDefinition::new(
            name,
            description.clone().unwrap_or_default(),
            input_schema.clone().unwrap_or_default(),
        );
        let offered = Offered::new(&definition, schemas)?;
        let binding = manifest.tools.iter().find(|tool| tool.name == offered.ckp_name);
        let skill = binding.and_then(|tool| tool.skill.as_ref());
        if let Some(foreign) = composite.foreign(skill) {
            return Err(foreign.one_line());
        }
        let skill = skill.cloned().unwrap_or_default();
        // What the skill wants holds beside what the tool's own document does.
        let beside = ToolBinding {
            timeout: Some(*timeout),
            input_schema: skill.input_schema,
            output_schema: skill.output_schema,
            ..ToolBinding::default()
        };
        let origin = Origin::Composite { file: file.clone() };
        let offered = Offered { beside: Some(beside), ..offered };
        Ok(Self { origin, code: ToolCode::Composite(Arc::clone(composite)), offered })
    }

    fn host(tool: OwnTool, schemas: &Schemas) -> Result<Self, String> {
        let offered = Offered::new(&tool.definition(), schemas)?;
        Ok(Self { origin: Origin::Own, code: ToolCode::Own(tool), offered })
    }
}

impl OwnTool {
    /// Returns what stands for the digest of its code.
    pub(super) const fn digest(self) -> &'static str {
        concat!("clawhost ", env!("CARGO_PKG_VERSION"))
    }

    fn definition(self) -> ToolDefinition {
        let text = || json!({"type": "string"});
        let (name, description, properties, required) = match self {
            Self::CallTool => (
                CALL_TOOL,
                "Calls a tool that find_tool has found. `arguments` has to fit its input_schema.",
                json!({"name": text(), "arguments": {"type": "object"}}),
                json!(["name", "arguments"]),
            ),
            Self::FindTool => (
                "find_tool",
                "Finds tools by what they are to do, in a few words: the best ones, each with name, \
                 description and input_schema. Call one with call_tool.",
                json!({
                    "query": text(),
                    "limit": {"type": "integer", "minimum": 1, "maximum": FIND_TOOLS_MAX},
                }),
                json!(["query"]),
            ),
            Self::ReadResult => (
                "read_result",
                "Reads on in a result that was cut and kept, page by page.",
                json!({"id": text(), "offset": {"type": "integer", "minimum": 0}}),
                json!(["id"]),
            ),
        };
        let input_schema: Value = json!({
            "type": "object", "properties": properties, "required": required,
            "additionalProperties": false,
        });
        // What another tool does, call_tool does.
        let reads = (self != Self::CallTool).then_some(true);
        let annotations = Annotations {
            read_only: reads,
            idempotent: reads,
            open_world: reads.map(|reads| !reads),
            ..Annotations::default()
        };
        ToolDefinition { annotations, ..ToolDefinition::new(name, description, input_schema) }
    }
}
